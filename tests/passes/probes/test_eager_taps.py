"""Gradients that are read when autograd comes to them."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.probes.eager_taps import PARAMETER, EagerTap, WithInput, expects_gradient, tap
from taiyi_fx.reductions import Norm
from tests.passes.probes.given import group_of, slot_of


@pytest.mark.parametrize("way", ["made here", "handed through", "held by another"])
def test_the_gradient_is_read_whatever_way_the_tensor_came(way):
    slot, x = slot_of("output_grad"), torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    value = tap((y, 1), y, (group_of(slot),), way)
    (value[0] * torch.tensor([3.0, 4.0])).sum().backward()
    assert slot.state[0] == 5
    assert torch.equal(x.grad, torch.tensor([6.0, 8.0]))


def test_a_hook_on_a_leaf_is_the_slots_to_remove():
    slot, x = slot_of("output_grad"), torch.ones(1, requires_grad=True)
    assert tap(x, x, (group_of(slot),), "handed through") is x
    assert len(slot.handles) == 1
    slot.clear()
    assert not x._backward_hooks


@pytest.mark.parametrize(
    ("tensor", "grad", "why"),
    [
        (nn.Parameter(torch.ones(1)), True, PARAMETER),
        (torch.ones(1), True, "the tensor there does not require a gradient"),
        (torch.ones(1), False, "the module was called under torch.no_grad()"),
    ],
)
def test_where_no_gradient_can_come_the_slot_says_why(tensor, grad, why):
    slot = slot_of("output_grad")
    with torch.set_grad_enabled(grad):
        assert not expects_gradient(tensor, (group_of(slot),))
    assert slot.note == why


def test_a_tap_keeps_the_version_so_that_misuse_is_reported():
    slot, x = slot_of("output_grad"), torch.ones(2, requires_grad=True)
    y = x.exp()
    tapped = EagerTap.apply(y, (group_of(slot),))
    tapped.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


class Pair(Norm):
    def measure_pair(self, x, g):
        return ((x * g).sum(),)


def test_a_pair_is_measured_once_and_lets_its_input_go():
    pair = WithInput(Pair(), torch.tensor([2.0]))
    assert pair.measure(torch.tensor([3.0])) == (6,)
    assert pair.x is None
    with pytest.raises(RuntimeError, match="backward ran twice"):
        pair.measure(torch.tensor([3.0]))


def test_an_input_that_was_changed_after_the_call_is_not_read():
    x = torch.tensor([2.0])
    pair = WithInput(Pair(), x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="was changed in place after the call"):
        pair.measure(torch.tensor([3.0]))
