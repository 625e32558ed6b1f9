"""The autograd graph, contracted onto calls of modules."""

import torch
from torch import nn

from taiyi_fx.passes.flow.contract import IN, OUT, CallNode, Frame, JoinNode, nodes_of

SCOPE = (("", 0),)
A, B = CallNode("a", 0, SCOPE), CallNode("b", 0, SCOPE)


def called(frame, node, function, x):
    """A call of a module as the observer tells of it."""
    sources, given = {key: [0] for key in frame.sources(x, SCOPE)}, set(nodes_of(x))
    made = function(x)
    frame.call(node, sources, made, given)
    return made


def begun(x):
    frame = Frame(SCOPE)
    frame.produce(IN, x)
    return frame


def test_operations_between_calls_are_contracted():
    x = torch.ones(2, requires_grad=True)
    frame = begun(x)
    y = called(frame, A, nn.Linear(2, 2), x * 2)
    z = called(frame, B, nn.Linear(2, 2), (y + 1).relu())
    frame.end(z, SCOPE)
    assert set(frame.graph.edges) == {(IN, A), (A, B), (B, OUT)}


def test_an_operation_that_brings_two_together_is_a_join():
    x = torch.ones(2, requires_grad=True)
    frame = begun(x)
    y = called(frame, A, nn.Linear(2, 2), x)
    frame.end(y * x.exp(), SCOPE)
    (join,) = [node for node in frame.graph if isinstance(node, JoinNode)]
    assert join.operation == "mul"
    assert set(frame.graph.edges) == {(IN, A), (IN, join), (A, join), (join, OUT)}


def test_without_gradients_a_tensor_is_known_by_its_memory():
    x = torch.ones(2)
    frame = begun(x)
    y = called(frame, A, lambda x: x + 1, x)
    frame.end(y.view(1, 2), SCOPE)
    assert set(frame.graph.edges) == {(IN, A), (A, OUT)}


def test_parameters_and_constants_come_from_nowhere():
    x, weight = torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2))
    frame = begun(x)
    frame.end(weight * 2 + torch.ones(2), SCOPE)
    assert not frame.graph.edges


def test_following_keeps_no_activation_alive():
    import gc
    import weakref

    x = torch.ones(2)
    frame = begun(x)
    y = called(frame, A, lambda x: x + 1, x)
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    assert frame.graph.has_node(A)
