"""Nodes that may change in place what they are given."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from taiyi_fx.passes.rewrite.changes import called_modules, may_change_inputs


class Mine(nn.Module):
    def forward(self, x):
        return x


MODULES = {
    "linear": nn.Linear(1, 1),
    "relu": nn.ReLU(),
    "relu_": nn.ReLU(inplace=True),
    "mine": Mine(),
    "derived": type("Derived", (nn.Linear,), {})(1, 1),
    "parts": nn.Sequential(nn.ReLU(inplace=True)),
}


def changes(op, target, *args, **kwargs):
    graph = fx.Graph()
    x = graph.placeholder("x")
    return bool(may_change_inputs(graph.create_node(op, target, (x, *args), kwargs), MODULES))


@pytest.mark.parametrize(
    "node",
    [("call_method", "add_", 1), ("call_method", "relu_"), ("call_function", F.relu_),
     ("call_function", F.relu, True), ("call_function", operator.iadd, 1),
     ("call_function", operator.setitem, 0, 1), ("call_module", "relu_"),
     ("call_module", "mine"), ("call_module", "derived"), ("call_module", "parts")],
    ids=lambda node: " ".join(getattr(part, "__name__", str(part)) for part in node),
)  # fmt: skip
def test_what_may_write_is_said_to(node):
    assert changes(*node)


@pytest.mark.parametrize(
    "node",
    [("call_method", "add", 1), ("call_method", "__add__", 1), ("call_function", F.relu),
     ("call_function", operator.add, 1), ("call_function", getattr, "shape"),
     ("call_function", operator.getitem, 0), ("call_module", "linear"), ("call_module", "relu")],
    ids=lambda node: " ".join(getattr(part, "__name__", str(part)) for part in node),
)  # fmt: skip
def test_what_leaves_its_inputs_alone_is_said_to(node):
    assert not changes(*node)


def test_a_function_that_is_told_to_write_does():
    assert changes("call_function", F.relu, inplace=True)
    assert changes("call_function", torch.add, 1, out=None)
    assert not changes("call_function", F.relu, inplace=False)


def test_called_modules_are_those_of_the_graph():
    graph = fx.Graph()
    graph.call_module("relu", (graph.placeholder("x"),))
    part = nn.ModuleDict({"relu": MODULES["relu"], "linear": MODULES["linear"]})
    assert called_modules(graph, part) == {"relu": MODULES["relu"]}
