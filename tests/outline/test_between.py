"""The functions between modules."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.between import functions_before, modules_before, shape_before
from taiyi_fx.outline.items import Edge, Item, Outline


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


def test_a_module_with_parts_is_given_what_leads_into_these_and_returns_what_leads_out():
    names = ("", "enter", "", "inner", "", "leave", "")
    parents = (-1, 0, 1, 0, 0, 0, 5)
    items = tuple(
        Item("module" if name or parent < 0 else "op", "mul", module=name, parent=parent)
        for name, parent in zip(names, parents, strict=True)
    )
    edges = ((2, 3), (2, 4), (3, 4), (4, 6))
    drawn = Outline(items, tuple(Edge(*edge, "3×4") for edge in edges))
    known = {"enter", "inner", "leave"}
    assert modules_before(drawn, "leave", known) == {"enter", "inner"}
    assert modules_before(drawn, "inner", known) == {"enter"}
    assert shape_before(drawn, "leave") == "3×4"
