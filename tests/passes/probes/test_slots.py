"""Slots: what a step keeps of one reading of one call."""

import weakref

import torch

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.passes.probes.slots import Slot, in_tensors, stacked, where, without_frames
from taiyi_fx.reductions import Norm


def test_a_slot_is_touched_by_what_is_left_in_it_and_merges_that():
    touched = {}
    slot, other = (Slot("fc", Reading(Site("output"), Norm()), touched) for _ in range(2))
    assert slot.state is None
    slot.fold((3.0,), torch.Size([2]))
    slot.fold((4.0,), torch.Size([5]))
    assert slot.state[0] == 5
    assert slot.shape == (2,)
    other.note_reason("nothing came")
    assert touched == {slot.key: slot, other.key: other}


def test_what_failed_once_stays_so_until_the_step_is_over():
    slot = Slot("fc", Reading(Site("output"), Norm()), {})
    slot.fail(ValueError("mine"))
    slot.fold((3.0,))
    assert slot.state is None
    assert str(slot.failure) == "mine"
    slot.clear()
    slot.fold((3.0,))
    assert slot.state[0] == 3


def test_numbers_of_python_become_tensors_of_their_kinds():
    count, total = in_tensors((3, 0.5))
    assert (count.dtype, total.dtype) == (torch.int64, torch.float64)
    state = (torch.ones(1),)
    assert in_tensors(state) is state


def test_many_states_are_stacked_part_by_part():
    numbers = stacked([(1, 0.5), (2, 1.5)])
    assert [part.tolist() for part in numbers] == [[1, 2], [0.5, 1.5]]
    mixed = stacked([(1,), (torch.tensor(2),)])
    assert mixed[0].tolist() == [1, 2]


def test_one_state_or_the_other_as_the_device_decides():
    a, b = (torch.tensor(1),), (torch.tensor(2),)
    assert where(torch.tensor(True), a, b) == a
    assert where(torch.tensor(False), a, b) == b


def test_an_error_without_frames_keeps_no_tensor_alive():
    def raised():
        big = torch.ones(10)
        try:
            raise ValueError(big.shape)
        except ValueError as error:
            return without_frames(error), weakref.ref(big)

    error, gone = raised()
    assert gone() is None
    assert error.__context__ is None


def test_what_a_device_still_computes_is_folded_once_it_is_settled():
    late, asked = [], []
    slot = Slot("fc", Reading(Site("output"), Norm()), {}, late=late)

    def measured():
        asked.append(None)
        return (3.0,)

    slot.fold_later(measured)
    slot.fold_later(lambda: (4.0,))
    assert late == [slot, slot]
    assert not asked
    slot.settle()
    slot.settle()
    assert slot.state[0] == 5
    slot.fold_later(measured)
    slot.restore((2.0,))
    slot.settle()
    assert slot.state[0] == 2
    slot.fold_later(lambda: 1 / 0)
    slot.settle()
    assert isinstance(slot.failure, ZeroDivisionError)
