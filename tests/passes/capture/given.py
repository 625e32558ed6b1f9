"""Forwards of one small model, as graphs."""

from __future__ import annotations

from collections import namedtuple

import torch
from torch import fx, nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.trace import trace

Point = namedtuple("Point", "x y")


class Base(nn.Module):
    """A layer, containers of each kind, and plain attributes."""

    level = 3

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.scale, self.options = nn.Linear(4, 4), 2.0, {"flag": True, "shift": 1.5}
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), self.fc])
        self.by_name = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(4, 4)})
        self.weights = nn.ParameterList([torch.ones(4), torch.full((4,), 2.0)])
        self.gains = nn.ParameterDict({"gain": torch.full((4,), 3.0)})
        self.seen, self.sizes = [], (1, 2)

    @property
    def doubled(self):
        return self.scale * 2

    def helper(self, x, *, by=2):
        return self.fc(x) * by


def made(forward, base=Base):
    return type("Made", (base,), {"forward": forward})()


def captured(forward, targets=(), functions=()):
    model = made(forward)
    return model, trace(model, TraceTargets(targets, functions))


def reason(forward):
    """Why a forward stays Python."""
    _, capture = captured(forward)
    return capture.python[""]


def graph_of(forward, targets=(), functions=()):
    _, capture = captured(forward, targets, functions)
    assert capture.is_whole, capture
    return capture.graphs[""][0]


def calls_in(graph):
    """What a graph calls, by name, in order."""
    names = (
        getattr(n.target, "__name__", n.target) for n in graph.nodes if n.op.startswith("call")
    )
    return list(names)


def assert_same(forward, *given):
    """A forward is one graph, which gives what it gives, to the bit."""
    model, capture = captured(forward)
    assert capture.is_whole, capture
    given = given or (torch.randn(3, 4),)
    graph = fx.GraphModule(model, capture.graphs[""][0].graph)
    expected, got = model(*given), graph(*given)
    assert type(got) is type(expected)
    flat = [torch.utils._pytree.tree_leaves(each) for each in (expected, got)]
    assert len(flat[0]) == len(flat[1])
    for a, b in zip(*flat, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def graph_writer_of(model, targets=(), functions=(), *, training=True):
    """A writer of the whole of a model, which interprets no calls."""
    names = {module: name for name, module in model.named_modules()}
    wanted = TraceTargets(targets, functions)
    return GraphWriter("", model, names, wanted, training=training, inline=no_calls)


def no_calls(*_):
    raise AssertionError("nothing is called here")


# Here, as pytest compiles the assertions of its own files to something else.
def asserts_rightly(self, x):
    assert self.scale > 1
    return x


def asserts_wrongly(self, x):
    assert self.scale == 0
    return x
