"""Expressions, evaluated in Python's order."""

import operator

import pytest
import torch
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.expressions import joined_text
from taiyi_fx.passes.capture.trace import trace
from tests.passes.capture.given import Base, assert_same, calls_in, graph_of, made, reason

FORWARDS = {
    "numbers": lambda self, x: x * (2**3 // 3 + -1 % 4) - (+self.scale),
    "chain": lambda self, x: x if 1 < self.scale < 3 else -x,
    "chain that ends": lambda self, x: x if 3 < self.scale < 4 else -x,
    "in what it made": lambda self, x: x if "a" in {"a": x} and 3 in [1, 3] else -x,
    "and": lambda self, x: (self.options["flag"] and self.fc)(x),
    "or": lambda self, x: (self.options["shift"] or 3) * x,
    "not": lambda self, x: x if not self.seen else -x,
    "is": lambda self, x: x if self.fc is self.layers[2] else -x,
    "is none": lambda self, x: -x if self.seen is None or None is not None else x,
    "in": lambda self, x: x if "flag" in self.options and 5 not in self.sizes else -x,
    "structures": lambda self, x: {"a": [x, (x, *self.sizes)], **{"b": x}},
    "text": lambda self, x: {f"{self.scale:.2f}-{self.sizes[0]!r}": x},
    "flowing text": lambda self, x: f"{x.ndim} axes",
    "comparison": lambda self, x: (x > 0) == (self.fc(x) <= 1.0),
    "slices": lambda self, x: x[..., 1:3][:, None, -1],
    "comprehension": lambda self, x: [layer(x) * i for i, layer in enumerate(self.layers) if i],
    "generator": lambda self, x: sum(layer(x) for layer in self.layers),
    "inverted": lambda self, x: ~(x > 0),
}


class Parent(Base):
    def act(self, x):
        return self.fc(x)


class Child(Parent):
    def act(self, x):
        return super().act(x) * 2

    def forward(self, x):
        return self.act(x) + super(Child, self).act(x)  # noqa: UP008 - which is read, too


@pytest.mark.parametrize("name", FORWARDS)
def test_an_expression_gives_what_it_gives_in_python(name):
    assert_same(FORWARDS[name])


def test_super_is_the_next_class_with_and_without_arguments():
    model, x = Child(), torch.randn(3, 4)
    capture = trace(model, TraceTargets([]))
    assert capture.is_whole
    graph = torch.fx.GraphModule(model, capture.graphs[""][0].graph)
    assert torch.equal(graph(x), model(x))


def test_operands_are_evaluated_from_left_to_right():
    graph = graph_of(lambda self, x: self.fc(x) + (x * 2) @ x.relu()).graph
    assert calls_in(graph) == ["fc", "mul", "relu", "matmul", "add"]


def test_operators_of_what_flows_are_nodes():
    graph = graph_of(lambda self, x: (-x << 1) ^ ~x).graph
    targets = {n.target for n in graph.nodes if n.op == "call_function"}
    assert targets == {operator.neg, operator.lshift, operator.xor, operator.invert}


def test_a_joined_text_is_that_of_python():
    assert joined_text("a", 1, torch.Size([2])) == f"a{1}{torch.Size([2])}"


REFUSED = {
    "tests the identity of a value, `x is self.scale`": lambda self, x: x is self.scale,
    "compares what flows in, `x in self.seen`": lambda self, x: x in self.seen,
    "compares what flows in, `1 in [x]`": lambda self, x: 1 in [x],
    "looks into a module, `self.fc in self.layers`": lambda self, x: self.fc in self.layers,
    "uses `lambda y: y`": lambda self, x: (lambda y: y)(x),
    "uses a nested or asynchronous comprehension": lambda self, x: [a for b in [[x]] for a in b],
    "reads 'late' before it is set": None,
    "formats a value with a conversion or a format of its own": lambda self, x: f"{x.ndim:3}",
    "unpacks by `**` what is not a dictionary that it made": lambda self, x: {**self.layers},
    "computes `truediv`": lambda self, x: x * (1 / 0),
    "calls `self.fc.forward` directly": lambda self, x: self.fc.forward(x),
}


def reads_late(self, x):
    y = late  # noqa: F821
    late = x
    return y + late


REFUSED["reads 'late' before it is set"] = reads_late
REFUSED["cannot be followed: ZeroDivisionError"] = REFUSED.pop("computes `truediv`")


@pytest.mark.parametrize(("why", "forward"), REFUSED.items())
def test_an_expression_that_is_not_known_keeps_the_forward_python(why, forward):
    assert why in reason(forward)


def test_identity_tells_modules_apart_but_not_numbers():
    assert "tests the identity" in reason(lambda self, x: x if self.scale is self.sizes else -x)
    assert isinstance(made(lambda self, x: x), nn.Module)
