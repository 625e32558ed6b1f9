"""The functions between modules."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.between import (
    constants_before,
    cuts_behind,
    functions_before,
    inputs_before,
    modules_before,
    shape_before,
)
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


def test_inputs_of_the_model_are_found_through_functions_and_not_through_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x, scale, mask):
            y = self.b(self.a(x) * scale.exp())
            return self.c(y.view(-1, 4)) * mask

    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 4), torch.rand(1), torch.rand(3, 4))
    known = {name: inputs_before(model.monitor.outline, name) for name in ("a", "b", "c", "other")}
    assert known == {"a": ["x"], "b": ["scale"], "c": [], "other": []}


def test_functions_that_take_a_shape_alone_are_found_where_there_is_no_other_way():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x, time):
            y = self.a(torch.full_like(time, 0.5).sin() * 2)
            z = self.b(x + torch.zeros_like(time))
            return self.c(torch.ones_like(y)) + z

    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 4), torch.rand(3, 4))
    known = {name: constants_before(model.monitor.outline, name) for name in ("a", "b", "c", "d")}
    assert known == {"a": [("full_like", "time")], "b": [], "c": [("ones_like", "a")], "d": []}


def test_functions_that_pass_no_gradient_back_are_found_up_to_the_modules_behind():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.act, self.b = nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)

        def forward(self, x):
            chosen = self.act(self.gate(x)).max(-1)[1]
            y = self.b(x.gather(1, chosen[:, None]).expand(-1, 4).round())
            return y.exp(), y.detach()

    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 4))
    outline, known = model.monitor.outline, {"gate", "b"}
    cuts = {name: cuts_behind(outline, name, known) for name in ("gate", "b", "other")}
    assert cuts == {"gate": ["max"], "b": ["detach"], "other": []}


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
