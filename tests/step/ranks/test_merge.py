"""Statistics of several ranks merge to what one rank that saw all rows would have."""

import functools

import pytest
import torch

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.ranks.bucket import Offer
from taiyi_fx.step.ranks.merge import merged
from tests.step.ranks.given import exchanged

STOCK = [
    reductions.Norm(),
    reductions.Count(),
    reductions.AbsMax(),
    reductions.Moments(),
    reductions.Moments(reduce="feature", feature_axis=1),
    reductions.FourthMoment(),
    reductions.Histogram(),
    reductions.Spectrum(feature_axis=1),
    reductions.Singular(feature_axis=1),
    reductions.Activity(feature_axis=1),
    reductions.Raw(),
]


def flat(value):
    if isinstance(value, reductions.SpectrumValue):
        return flat((value.eigenvalues, value.n))
    values = value if isinstance(value, tuple) else (value,)
    return torch.cat([torch.as_tensor(v).double().reshape(-1) for v in values])


@pytest.mark.parametrize("reduction", STOCK, ids=str)
@pytest.mark.parametrize("readings", [1, 40])
def test_statistics_of_all_ranks_merge_to_that_of_all_rows(reduction, readings):
    # Seven ranks; each third reading is not there on one of them, and rows differ in number.
    rows = torch.randn(7, readings, 12, 3, dtype=torch.float64)
    sizes = [12] * 7 if readings == 40 else [3, 1, 12, 7, 2, 5, 12]
    of_ranks = [
        {
            ("train", i, 0): Offer(reduction.measure(rows[rank, i, : sizes[rank]]))
            for i in range(readings)
            if (rank + i) % 3
        }
        for rank in range(7)
    ]
    reading = Reading(Site("input"), reduction)
    found = merged(exchanged(of_ranks), dict.fromkeys(range(readings), reading))
    for i in range(readings):
        there = [rows[rank, i, : sizes[rank]] for rank in range(7) if (rank + i) % 3]
        expected = reduction.finish(reduction.measure(torch.cat(there)))
        state = found["train", i, 0]
        torch.testing.assert_close(flat(reduction.finish(state)), flat(expected))


def test_many_readings_are_merged_by_few_calls(monkeypatch):
    calls = []
    merge = reductions.Moments.merge
    monkeypatch.setattr(
        reductions.Moments, "merge", lambda self, a, b: calls.append(1) or merge(self, a, b)
    )
    reduction = reductions.Moments()
    offers = {("train", i, 0): Offer(reduction.measure(torch.randn(5, 2))) for i in range(100)}
    readings = dict.fromkeys(range(100), Reading(Site("input"), reduction))
    merged(exchanged([offers] * 16), readings)
    assert len(calls) == 4


def test_a_merge_that_looks_at_its_numbers_is_made_one_by_one():
    class Largest(reductions.AbsMax):
        def merge(self, a, b):
            return a if a[0].item() > b[0].item() else b

    of_ranks = [
        {("train", i, 0): Offer((torch.tensor(float((rank * 7 + i) % 5)),)) for i in range(100)}
        for rank in range(3)
    ]
    readings = dict.fromkeys(range(100), Reading(Site("input"), Largest()))
    found = merged(exchanged(of_ranks), readings)
    for i in range(100):
        assert found["train", i, 0][0].item() == max((rank * 7 + i) % 5 for rank in range(3))


def test_types_differ_among_ranks_without_loss():
    raw = reductions.Raw()
    parts = [torch.randn(2, 3).bfloat16(), torch.randn(4, 3), torch.zeros(0, 3)]
    of_ranks = [{("train", 0, 0): Offer(raw.measure(part))} for part in parts]
    (state,) = merged(exchanged(of_ranks), {0: Reading(Site("input"), raw)}).values()
    assert torch.equal(state[0], torch.cat([part.float() for part in parts]))


def test_merging_in_the_order_of_ranks():
    raw = reductions.Raw()
    of_ranks = [{("train", 0, 0): Offer((torch.tensor([[float(rank)]]),))} for rank in range(5)]
    (state,) = merged(exchanged(of_ranks), {0: Reading(Site("input"), raw)}).values()
    expected = functools.reduce(raw.merge, [offers["train", 0, 0].state for offers in of_ranks])
    assert torch.equal(state[0], expected[0])


def test_a_merge_that_fails_is_the_result_of_its_reading_alone():
    class Broken(reductions.AbsMax):
        def merge(self, a, b):
            raise ValueError("no luck")

    x = torch.tensor([3.0, -4.0])
    of_ranks = [{("train", i, 0): Offer(reductions.AbsMax().measure(x)) for i in range(2)}] * 2
    readings = {0: Reading(Site("input"), Broken()), 1: Reading(Site("input"), reductions.AbsMax())}
    found = merged(exchanged(of_ranks), readings)
    assert str(found["train", 0, 0]) == "no luck"
    assert found["train", 1, 0][0].item() == 4


def test_a_reading_of_one_rank_needs_no_merge_and_keeps_no_exchanged_vector_alive():
    norm = reductions.Norm()
    rows = exchanged([{}, {("train", 0, 0): Offer(norm.measure(torch.ones(9)))}])
    (state,) = merged(rows, {0: Reading(Site("input"), norm)}).values()
    assert norm.finish(state).item() == 3
    assert state[0].untyped_storage().nbytes() == state[0].nbytes
