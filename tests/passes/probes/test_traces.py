"""What compiled code brings: how the numbers of one graph lie."""

import pytest
import torch

from taiyi_fx.passes.probes.held import Held
from taiyi_fx.passes.probes.packing import kinds_of
from taiyi_fx.passes.probes.traces import Reader, Trace
from taiyi_fx.reductions import Norm, SquareSum
from tests.passes.probes.given import group_of, slot_of

CPU = torch.device("cpu")


def begun(*reductions, is_within=False):
    """A trace with one reader of each reduction, whose state's kind is known."""
    trace = Trace(Held(), is_within)
    slots = [slot_of(reduction=reduction) for reduction in reductions]
    readers = [Reader((group_of(slot),)) for slot in slots]
    for reader, slot in zip(readers, slots, strict=True):
        state = slot.reading.reduction.measure(torch.ones(1))
        trace.kinds[reader.entries()[0]] = kinds_of(state, is_fixed=True)
    return trace, readers, slots


def left_of(trace, readers, slots, x):
    parts = [
        ((r.key,), trace.packed({r.entries()[0]: s.reading.reduction.measure(x)}, CPU))
        for r, s in zip(readers, slots, strict=True)
    ]
    left, trace.values = trace.arranged(parts)
    return left


def test_values_leave_as_one_vector_and_land_in_their_slots():
    trace, readers, slots = begun(Norm(), SquareSum())
    left = left_of(trace, readers, slots, torch.tensor([3.0, 4.0]))
    assert len(left) == 1
    trace.unpack(None, left)
    trace.held.settle()
    assert slots[0].state[0] == 5
    assert float(slots[1].state[-1]) == 25


def test_two_forwards_are_merged_where_they_lie():
    trace, readers, slots = begun(Norm())
    left = [left_of(trace, readers, slots, torch.tensor([value])) for value in (3.0, 4.0)]
    trace.unpack(None, trace.merged(*left))
    trace.held.settle()
    assert slots[0].state[0] == 5


@pytest.mark.parametrize("counts", [[], [1.0]])
def test_the_gradient_of_a_carrier_is_unpacked_by_its_rooms(counts):
    trace, readers, slots = begun(Norm(), Norm(), is_within=bool(counts))
    index = trace.carrier_at(CPU, 2)
    assert trace.carrier_at(CPU, 9) == index  # there is one on that device
    for reader in readers:
        (entry,) = reader.entries()
        trace.give_room(entry, index)
        trace.reached[entry] = None
    carrier = trace.new_carrier(index)
    gradient = torch.tensor([*counts, 3.0, 4.0], dtype=torch.float64)
    assert carrier.shape == gradient.shape
    carrier.backward(gradient)
    trace.unpack_gradients()
    trace.held.settle()
    assert [slot.state[0].item() for slot in slots] == [3, 4]


def test_what_finds_no_room_has_a_carrier_of_its_own():
    trace, readers, _ = begun(Norm(), Norm())
    index = trace.carrier_at(CPU, 1)
    for reader in readers:
        trace.give_room(reader.entries()[0], index)
    assert [room.tensor for room in trace.rooms.values()] == [0, 1]
    assert trace.carriers == [(1, CPU), (1, CPU)]


def test_gradients_have_the_order_in_which_they_came_whatever_carrier_they_came_by():
    trace, readers, slots = begun(Norm(), Norm(), Norm())
    index = trace.carrier_at(CPU, 1)
    entries = [reader.entries()[0] for reader in readers]
    for entry in entries:
        trace.give_room(entry, index)
    assert len(trace.carriers) == 3
    came = entries[1], entries[2], entries[0]
    trace.reached.update(dict.fromkeys(came))
    for carrier in trace.new_carriers().values():
        carrier.backward(torch.tensor([3.0], dtype=torch.float64))
    trace.unpack_gradients()
    assert sorted(slots, key=lambda slot: slot.order) == [slots[1], slots[2], slots[0]]


def test_what_was_refused_is_told_at_its_slots():
    trace, readers, slots = begun(Norm())
    trace.refuse(readers[0].entries()[0], ValueError("mine"))
    trace.unpack(None, [])
    assert str(slots[0].failure) == "mine"
