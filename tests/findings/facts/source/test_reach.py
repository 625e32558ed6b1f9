"""The code of a file that runs, as far as names tell."""

import ast

from taiyi_fx.findings.facts.source.reach import MODULE, Reach

CODE = """import torch
from functools import cache

def helper(x):
    return x

@cache
def train(model):
    def inner():
        return helper(1)
    return inner

def other():
    return 3

class Agent:
    def update(self):
        return self.again()

    def again(self):
        return 1

agent = Agent()
"""
LINES = {"helper": 5, "train": 8, "inner": 10, "other": 14, "update": 18, "again": 21, "module": 23}


def reached(*running):
    reach = Reach(ast.parse(CODE), running)
    return {name for name, line in LINES.items() if line in reach}


def test_a_function_that_runs_is_read_with_what_it_names():
    assert reached(7) == {"train", "inner", "helper"}
    assert reached(4) == {"helper"}
    assert reached(13) == {"other"}
    assert reached() == set()


def test_code_outside_of_functions_reaches_the_methods_of_classes_that_it_names():
    assert reached(MODULE) == {"module", "update", "again"}


def test_a_method_reaches_those_that_it_calls():
    assert reached(17) == {"update", "again"}
    assert reached(20) == {"again"}


def test_a_function_within_another_is_a_part_of_it():
    assert reached(9) == {"inner", "helper"}
