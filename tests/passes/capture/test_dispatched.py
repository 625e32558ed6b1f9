"""Calls of torch's functions with the arguments that a trace of torch.fx has."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from taiyi_fx.passes.capture.dispatched import as_dispatched


def traced(function):
    """The arguments of the one call that stock torch.fx has of a function."""
    (node,) = fx.symbolic_trace(function).graph.find_nodes(
        op="call_function", target=F_OF[function]
    )
    return node


dropout = lambda x: F.dropout(x, 0.3, True)  # noqa: E731
layer_norm = lambda x: F.layer_norm(x, (4,))  # noqa: E731
relu = lambda x: F.relu(x)  # noqa: E731
F_OF = {dropout: F.dropout, layer_norm: F.layer_norm, relu: F.relu}


@pytest.mark.parametrize(
    ("function", "args"), [(dropout, (0.3, True)), (layer_norm, ((4,),)), (relu, ())]
)
def test_arguments_are_spelled_out_as_by_a_trace(function, args):
    expected = traced(function)
    x = fx.Graph().placeholder("x")
    given, named = as_dispatched(F_OF[function], (x, *args), {})
    assert given[0] is x
    assert given[1:] == expected.args[1:]
    assert named == expected.kwargs


def test_nodes_within_structures_come_back_and_their_graph_stays_as_it_is():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    given, named = as_dispatched(torch.einsum, ("ij,jk", x, y), {})
    assert list(given) == ["ij,jk", x, y]
    assert named == {}
    assert len(graph.nodes) == 2
    assert not x.users


@pytest.mark.parametrize("target", [torch.add, len, torch.Tensor.add, "relu"])
def test_what_hands_nothing_on_is_left_alone(target):
    x = fx.Graph().placeholder("x")
    assert as_dispatched(target, (x, 1), {}) == ((x, 1), {})


def test_a_call_that_fails_is_left_to_fail_when_it_is_made():
    x = fx.Graph().placeholder("x")
    assert as_dispatched(F.dropout, (x, 1, 2, 3, 4, 5), {}) == ((x, 1, 2, 3, 4, 5), {})
