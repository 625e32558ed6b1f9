"""Marks around calls, and what passes them."""

import pytest
import torch
from torch import fx, nn

from taiyi_fx.passes.capture.marks import (
    behind_marks,
    enter,
    is_mark,
    leave,
    mark_call,
    mark_root,
    mark_value,
    pack,
    part_of,
    unpack,
)


def test_marks_hand_on_what_passes():
    x = torch.ones(1)
    assert enter(x, "fc", 0) is x
    assert leave(x, "fc", 0) is x
    packed = pack((x, [2]), {"mask": 3})
    assert unpack(packed, (".args", 1, 0)) == 2
    assert unpack(packed, (".kwargs", "mask")) == 3


def test_one_argument_passes_as_it_is_and_several_as_one():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    (given,), _ = mark_call(graph, (x,), {}, "fc", 0)
    assert given.target is enter
    args, kwargs = mark_call(graph, (x, 2), {"mask": [y]}, "fc", 1)
    assert args[0].target is unpack
    assert args[1] == 2
    assert kwargs["mask"][0].target is unpack
    assert len([n for n in graph.nodes if is_mark(n)]) == 2


@pytest.mark.parametrize("shape", [lambda x, y: (x, [y, 1]), lambda x, y: {"a": x, "b": (y,)}])
def test_what_made_a_value_is_seen_through_marks(shape):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    marked = mark_value(graph, leave, shape(x, y), "fc", 0)
    assert list(behind_marks(marked)) == [x, y]


def test_a_part_of_a_packed_call_is_that_argument():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    packed = graph.call_function(pack, ((x,), {"mask": y}))
    assert part_of(packed, (".args", 0)) is x
    assert part_of(packed, (".kwargs", "mask")) is y


def test_a_whole_graph_between_marks_computes_what_it_computed():
    graph = fx.symbolic_trace(lambda x, y: {"sum": x + y}).graph
    mark_root(graph, "")
    graph.lint()
    assert [n.target for n in graph.nodes if is_mark(n)] == [enter, leave]
    x = torch.ones(2)
    assert torch.equal(fx.GraphModule(nn.Module(), graph)(x, x)["sum"], x + x)
