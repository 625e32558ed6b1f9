"""The table of slots: what a step keeps of each reading of each call."""

import torch

from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.passes.probes.accumulate import fold
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.reductions import Norm
from tests.passes.probes.given import group_of

READING = Reading(Site("output"), Norm())


def table_and_slot():
    table = SlotTable({"fc": Target("fc", frozenset({READING}))})
    return table, table.at("train", "fc", 0)[READING]


def folded(slot, *values):
    for value in values:
        fold(torch.tensor([float(value)]), (group_of(slot),))


def test_each_call_and_mode_has_slots_of_its_own_made_once():
    table, slot = table_and_slot()
    assert table.at("train", "fc", 0)[READING] is slot
    version = table.version
    assert table.at("train", "fc", 1)[READING] is not slot
    assert table.at("eval", "fc", 0)[READING] is not slot
    assert table.version == version + 2
    assert (table.calls("train", "fc"), table.calls("eval", "fc")) == (2, 1)


def test_a_step_that_is_cleared_is_forgotten():
    table, slot = table_and_slot()
    folded(slot, 3)
    assert [(s, in_tensors(state)[0].item()) for s, state in table.states()] == [(slot, 3)]
    table.clear()
    assert table.states() == []
    assert slot.state is None


def test_a_forward_that_failed_is_taken_back_to_what_was_before():
    table, slot = table_and_slot()
    folded(slot, 3)
    table.begin_forward()
    folded(slot, 4)
    assert slot.state[0] == 5
    table.restore()
    assert slot.state[0] == 3


def test_slots_made_later_are_joined_too():
    table, slot = table_and_slot()
    table.join()
    assert slot.is_joined
    assert table.at("train", "fc", 1)[READING].is_joined


def test_a_hook_on_what_outlives_the_step_is_removed_with_it():
    table, slot = table_and_slot()
    weight = torch.ones(1, requires_grad=True)
    slot.handles.append(weight.register_hook(lambda g: g))
    folded(slot, 1)
    table.clear()
    assert not weight._backward_hooks
    assert slot.handles == []
