"""Calls: each by the rule for what is called."""

import operator
import random

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.passes.capture.guards import Guard
from tests.passes.capture.given import Point, assert_same, calls_in, graph_of, reason

FORWARDS = {
    "module": lambda self, x: self.fc(x),
    "module by keyword": lambda self, x: self.fc(input=x),
    "own method": lambda self, x: self.helper(x, by=3),
    "torch": lambda self, x: torch.cat([x, F.gelu(x)], dim=-1),
    "tensor": lambda self, x: x.view(-1).sum().add(1),
    "tensor's class": lambda self, x: torch.Tensor.mul(x, 2),
    "named tuple": lambda self, x: Point(x, y=x * 2),
    "new tensor": lambda self, x: x + torch.ones(4),
    "operator": lambda self, x: operator.add(x, operator.mul(x, 3)),
    "compiling": lambda self, x: -x if torch.compiler.is_compiling() else x,
    "keywords unpacked": lambda self, x: torch.cat([x, x], **{"dim": 0}),
    "list's methods": lambda self, x: [x, x * 2, x * 3].pop(1),
    "text's methods": lambda self, x: {"a.b".split(".")[-1].upper(): x},
    "checked": lambda self, x: (torch._assert(self.scale > 1, "small"), x)[1],
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_call_gives_what_it_gives_in_python(name):
    assert_same(FORWARDS[name])


REFUSED = {
    "calls `random` of a Random": lambda self, x: x * random.random(),
    "calls torch's randn without a value that flows in": lambda self, x: x + torch.randn(4),
    "calls `print`": lambda self, x: print(x),
    "calls `append` of a list": lambda self, x: self.seen.append(x),
    "calls a method that changes or reads the module's state, `train`": lambda s, x: s.train(),
    "calls what flows in": lambda self, x: x(1),
    "calls a float": lambda self, x: self.scale(x),
    "calls `get` with keywords": lambda self, x: {"a": x}.get("a", default=x),
    "cannot be followed: TypeError": lambda self, x: Point(x),
}


@pytest.mark.parametrize(("why", "forward"), REFUSED.items())
def test_a_call_without_a_rule_keeps_the_forward_python(why, forward):
    assert why in reason(forward)


def test_whether_code_is_compiled_is_a_guard_on_the_answer():
    guards = graph_of(FORWARDS["compiling"]).guards
    assert guards.asked == {torch.compiler.is_compiling: False}


def test_own_methods_and_helpers_go_into_the_graph():
    captured = graph_of(FORWARDS["own method"])
    assert calls_in(captured.graph) == ["fc", "mul"]
    kind = next(k for k in captured.guards.modules.values())
    assert Guard(kind, "helper", kind.helper) in captured.guards


class Counting(tuple):
    _fields = ("x",)
    made = 0

    def __new__(cls, x):
        Counting.made += 1
        return tuple.__new__(cls, (x,))


def test_a_tuple_that_is_made_in_a_way_of_its_own_is_not_made_to_find_out():
    assert "calls" in reason(lambda self, x: Counting(x))
    assert not Counting.made
