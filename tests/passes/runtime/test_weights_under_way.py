"""Weights followed through the calls of a forward."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.weights_under_way import WeightsUnderWay, product_slots
from taiyi_fx.passes.structure import Call
from taiyi_fx.passes.weighted import NOT_ONE


@dataclass(frozen=True)
class Total:
    """The sum of the product, and the axis of its heads."""

    of_product = ("softmax",)

    def measure_call(self, call, result):
        value, heads = result
        return value.sum(), torch.tensor(heads)

    def merge(self, a, b):
        return a[0] + b[0], a[1]

    def scale(self, state, factor):
        return state

    def finish(self, state):
        return state[0]


READING = Reading(Site("call"), Total())
WEIGHTS, VALUES = torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 5)


@pytest.fixture
def awaited():
    table = SlotTable({"s": Target("s", frozenset({READING}))})
    groups = product_slots(table, {("s", READING)}, "train", "s", 0, "softmax")
    under_way = WeightsUnderWay()
    under_way.await_product(WEIGHTS, Call((), {}, "softmax"), groups)
    ((_, (slot,)),) = groups
    return under_way, slot


def called(under_way, function, *args, **kwargs):
    made = function(*args, **kwargs)
    under_way.pass_on(function, args, kwargs, made)
    return made


def test_a_product_is_read_and_none_of_two(awaited):
    under_way, slot = awaited
    assert slot.note == NOT_ONE
    kept = called(under_way, F.dropout, called(under_way, torch.mul, WEIGHTS, 2.0), 0.5)
    made = called(under_way, torch.matmul, kept, VALUES)
    assert [part.item() for part in slot.found] == [made.sum().item(), -3]
    called(under_way, torch.matmul, kept, VALUES + 1)
    assert slot.found is None
    assert str(slot.failure) == NOT_ONE


def test_other_tensors_and_mixtures_are_not_followed(awaited):
    under_way, slot = awaited
    called(under_way, torch.matmul, VALUES, VALUES.mT)
    called(under_way, torch.matmul, called(under_way, torch.cumsum, WEIGHTS, 1), VALUES)
    assert slot.found is None


def test_another_name_of_the_same_memory_is_the_same(awaited):
    under_way, slot = awaited
    kept = called(under_way, F.dropout, WEIGHTS, 0.0, False)
    called(under_way, torch.matmul, kept.view_as(kept), VALUES)
    assert slot.found is not None


def test_slots_are_those_of_readings_that_are_due_and_read_a_product():
    table = SlotTable({"s": Target("s", frozenset({READING}))})
    assert product_slots(table, set(), "train", "s", 0, "softmax") == ()
    assert product_slots(table, {("s", READING)}, "train", "s", 0, "other") == ()


def test_scores_are_made_of_products_of_computed_tensors():
    under_way, x, weight = WeightsUnderWay(), torch.rand(3, 4), nn.Parameter(torch.rand(4, 3))
    scores, of_parameter = x @ x.T, x @ weight
    under_way.note_scores(torch.matmul, (x, x.T), {}, scores)
    under_way.note_scores(torch.matmul, (x, weight), {}, of_parameter)
    scaled, other = scores / 2, scores.cumsum(-1)
    under_way.note_scores(torch.div, (scores, 2), {}, scaled)
    under_way.note_scores(torch.cumsum, (scores, -1), {}, other)
    assert under_way.is_of_scores((scaled, -1), {})
    assert not under_way.is_of_scores((of_parameter, -1), {})
    assert not under_way.is_of_scores((other, -1), {})
