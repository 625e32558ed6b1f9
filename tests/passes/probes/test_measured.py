"""Statistics of many tensors by one call."""

import pytest
import torch

from taiyi_fx.passes.probes.measured import Alike, Measured, arrange
from taiyi_fx.reductions import Norm
from tests.passes.probes.given import group_of, slot_of


def test_what_one_reduction_keeps_of_several_tensors_is_one_call():
    norm, slots = Norm(), [slot_of() for _ in range(3)]
    groups = [((norm, (slot,)),) for slot in slots]
    shapes = [torch.Size([2]), torch.Size([3]), torch.Size([2])]
    arranged = arrange(shapes, groups)
    assert arranged.alike == [Alike(norm, [0, 1, 2], [(slot,) for slot in slots], shapes)]
    assert arranged.fits([torch.ones(7)] * 3, groups)
    assert not arranged.fits([torch.ones(2)], groups[:1])


def test_where_shapes_matter_only_tensors_of_one_shape_are_one_call():
    class OfShape(Norm):
        is_over_elements = False

    groups, shapes = [(group_of(slot_of(reduction=OfShape())),)] * 3, [(2,), (3,), (2,)]
    arranged = arrange([torch.Size(shape) for shape in shapes], groups)
    assert [alike.places for alike in arranged.alike] == [[0, 2], [1]]
    assert arranged.fits([torch.ones(shape) for shape in shapes], groups)
    assert not arranged.fits([torch.ones(7)] * 3, groups)


def test_statistics_become_those_of_slots():
    norm, slots = Norm(), [slot_of() for _ in range(2)]
    alike = Alike(norm, [0, 1], [(slot,) for slot in slots], [None, None])
    Measured(alike, (torch.tensor([3.0, 4.0]),)).fold()
    assert [slot.state[0].item() for slot in slots] == [3, 4]


def test_what_does_not_merge_is_the_failure_of_its_slot_alone():
    class Refuses(Norm):
        def merge(self, a, b):
            raise ArithmeticError("not these")

    slots = [slot_of(reduction=Refuses()), slot_of()]
    alike = Alike(Norm(), [0, 1], [(slot,) for slot in slots], [None, None])
    for _ in range(2):
        Measured(alike, (torch.tensor([3.0, 4.0]),)).fold()
    assert str(slots[0].failure) == "not these"
    assert slots[1].state[0].item() == pytest.approx(32**0.5)
