"""Tensors folded into slots, one at a time."""

from dataclasses import dataclass

import pytest
import torch

from taiyi_fx.passes.probes.accumulate import fail, fold, note_reason
from taiyi_fx.reductions import AbsMax, Norm
from tests.passes.probes.given import group_of, slot_of


def test_a_tensor_is_folded_into_each_slot_in_order():
    norm, largest = slot_of(), slot_of(reduction=AbsMax())
    x = torch.tensor([3.0, -4.0], requires_grad=True)
    fold(x, (group_of(norm), group_of(largest)))
    assert (norm.state[0].item(), largest.state[0].item()) == (5, 4)
    assert norm.shape == (2,)
    assert norm.order < largest.order
    assert not norm.state[0].requires_grad


def test_several_tensors_are_merged():
    slot = slot_of()
    for x in (torch.tensor([3.0]), torch.tensor([4.0])):
        fold(x, (group_of(slot),))
    assert slot.state[0].item() == pytest.approx(5)


@dataclass(frozen=True)
class Fails(Norm):
    def measure(self, x):
        raise ValueError("mine")


def test_a_measure_that_fails_is_told_and_the_others_are_made():
    bad, good = slot_of(reduction=Fails()), slot_of()
    fold(torch.ones(1), (group_of(bad), group_of(good)))
    assert str(bad.failure) == "mine"
    assert bad.failure.__traceback__ is None
    assert good.state[0] == 1


def test_what_failed_stays_failed_for_the_step():
    slot = slot_of()
    fail((slot,), RuntimeError("once"))
    fold(torch.ones(1), (group_of(slot),))
    assert slot.state is None
    slot.clear()
    fold(torch.ones(1), (group_of(slot),))
    assert slot.state[0] == 1


def test_a_reason_is_left_where_nothing_may_come():
    slot = slot_of()
    note_reason((group_of(slot),), "nothing came")
    assert slot.note == "nothing came"
