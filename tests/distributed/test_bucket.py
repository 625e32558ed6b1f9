"""What ranks put into a bucket comes out of it, and merges to what one rank would have."""

import functools

import pytest
import torch

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.ranks.bucket import Layout, Offer, Rows, common_room, misfits, room_of
from taiyi_fx.step.ranks.merge import merged

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


def exchanged(of_ranks):
    layout = Layout(common_room(map(room_of, of_ranks)), torch.device("cpu"))
    assert all(layout.fits(key, offer) for offers in of_ranks for key, offer in offers.items())
    rows = torch.stack([layout.packed(offers) for offers in of_ranks])
    assert rows.shape[1] == layout.nbytes
    assert not misfits(rows)
    return Rows(layout, rows)


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


def test_what_a_rank_lacks_or_failed_at_is_known():
    norm = reductions.Norm()
    x = torch.ones(4)
    of_ranks = [
        {("train", 0, 0): Offer(norm.measure(x)), ("eval", 1, 2): Offer(None)},
        {},
        {("train", 0, 0): Offer(norm.measure(x))},
        {},
    ]
    rows = exchanged(of_ranks)
    there = {key: who.tolist() for key, who in rows.present.items()}
    assert there == {("train", 0, 0): [True, False, True, False]}
    failed = {key: who.tolist() for key, who in rows.failed.items()}
    assert failed == {("eval", 1, 2): [True, False, False, False]}
    readings = dict.fromkeys(range(2), Reading(Site("input"), norm))
    found = merged(rows, readings)
    assert found.keys() == {("train", 0, 0)}
    assert norm.finish(found["train", 0, 0]).item() == pytest.approx(8**0.5)


def test_types_differ_among_ranks_without_loss():
    raw = reductions.Raw()
    parts = [torch.randn(2, 3).bfloat16(), torch.randn(4, 3), torch.zeros(0, 3)]
    of_ranks = [{("train", 0, 0): Offer(raw.measure(part))} for part in parts]
    (state,) = merged(exchanged(of_ranks), {0: Reading(Site("input"), raw)}).values()
    assert torch.equal(state[0], torch.cat([part.float() for part in parts]))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.complex128, torch.bfloat16])
def test_any_type_travels(dtype):
    raw = reductions.Raw()
    x = torch.randint(2, (3, 5)).to(dtype)
    rows = exchanged([{("train", 0, 0): Offer((x,)), ("train", 1, 0): Offer((x[0, 0],))}] * 3)
    found = merged(rows, dict.fromkeys(range(2), Reading(Site("input"), raw)))
    assert torch.equal(found["train", 0, 0][0], torch.cat([x] * 3))


def test_what_does_not_fit_is_seen_and_said():
    norm, raw = reductions.Norm(), reductions.Raw()
    known = {("train", 0, 0): Offer(raw.measure(torch.ones(2, 3)))}
    layout = Layout(common_room([room_of(known)]), torch.device("cpu"))
    for offer in (
        raw.measure(torch.ones(3, 3)),
        raw.measure(torch.ones(1, 1, 3)),
        norm.measure(torch.ones(2, dtype=torch.float64)),
    ):
        assert not layout.fits(("train", 0, 0), Offer(offer))
    assert not layout.fits(("train", 0, 1), Offer(raw.measure(torch.ones(2, 3))))
    assert layout.fits(("train", 0, 0), Offer(raw.measure(torch.ones(1, 2))))
    rows = torch.stack([layout.packed(known), layout.packed(None)])
    assert misfits(rows)


def test_merging_in_the_order_of_ranks():
    raw = reductions.Raw()
    of_ranks = [{("train", 0, 0): Offer((torch.tensor([[float(rank)]]),))} for rank in range(5)]
    (state,) = merged(exchanged(of_ranks), {0: Reading(Site("input"), raw)}).values()
    expected = functools.reduce(raw.merge, [offers["train", 0, 0].state for offers in of_ranks])
    assert torch.equal(state[0], expected[0])
