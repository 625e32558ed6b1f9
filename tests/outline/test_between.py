"""The functions between modules."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.between import functions_before, modules_before, shape_before


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        y = (self.a(x) - 0.1).log() * 2
        z = self.b(y.view(-1, 4))
        return self.c(torch.sqrt(z + y))


@pytest.fixture(scope="module")
def outline():
    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 4))
    return model.monitor.outline


def test_they_stand_in_the_order_of_execution_without_those_that_rearrange(outline):
    assert functions_before(outline, "b") == ["sub", "log", "mul"]


def test_of_two_ways_to_a_module_both_are_named(outline):
    assert functions_before(outline, "c") == ["sub", "log", "mul", "add", "sqrt"]


@pytest.mark.parametrize("module", ["a", "other"])
def test_there_are_none_before_the_first_module_and_before_an_unknown_one(outline, module):
    assert functions_before(outline, module) == []


def test_the_nearest_of_known_modules_are_found_through_functions_and_other_modules(outline):
    assert modules_before(outline, "c", {"a", "b", "c"}) == {"a", "b"}
    assert modules_before(outline, "c", {"", "a"}) == {"a"}
    assert modules_before(outline, "a", {"a", "b"}) == set()
    assert modules_before(outline, "other", {"a"}) == set()


def test_the_shape_of_what_a_module_is_given_is_known_if_it_is_one(outline):
    assert shape_before(outline, "b") == "3×4"
    assert shape_before(outline, "other") == ""
