"""Nodes of autograd's graph by the call that made them."""

import torch
from torch._C._autograd import _get_sequence_nr

from taiyi_fx.passes.made_nodes import nodes_of


def test_the_nodes_that_a_call_made_are_found_once_each_and_no_others():
    x = torch.ones(2, requires_grad=True) * 2
    first = _get_sequence_nr()
    inside = x.sin()
    y = inside * inside.cos()
    numbers = range(first, _get_sequence_nr())
    outside = y.exp()
    assert list(nodes_of([outside], numbers)) == []
    found = dict(nodes_of([y, inside], numbers))
    assert sorted(node.name() for node in found) == ["CosBackward0", "MulBackward0", "SinBackward0"]
    assert found[inside.grad_fn] == ((x.grad_fn, 0),)


def test_what_was_met_before_is_left_out():
    x = torch.ones(2, requires_grad=True)
    first = _get_sequence_nr()
    a = x.sin()
    b = a.cos()
    numbers, met = range(first, _get_sequence_nr()), set()
    assert [node for node, _ in nodes_of([a], numbers, met)] == [a.grad_fn]
    assert [node for node, _ in nodes_of([b], numbers, met)] == [b.grad_fn]
    assert met == {a.grad_fn, b.grad_fn}
