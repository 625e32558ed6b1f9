"""Thinning keeps what tells most of a series of vectors, and says what it left out."""

import numpy as np
import pytest

import taiyi_fx
from taiyi_fx.pictures.report import contents
from taiyi_fx.pictures.report.thin import Thinning, evenly
from taiyi_fx.quantities.binned import BY_POWER_OF_TWO
from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, Store
from tests.pictures.report.decoded import decoded
from tests.writers.runs import written

STEPS = list(range(1000))


def vectors():
    """A thousand vectors that are nearly alike."""
    return {step: np.sin(np.arange(8.0) + step / 100) + 2 for step in STEPS}


class Source:
    """Vectors in memory, which counts how many are read."""

    def __init__(self, found):
        self.found, self.read = found, 0

    def __call__(self, series, steps):
        self.read += len(steps)
        return {step: self.found[step] for step in steps}


def chosen(found, many=20, unit=""):
    return Thinning().chosen(Source(found), 1, list(found), many, unit)


@pytest.mark.parametrize("wild", [np.full(8, 1e6), np.full(8, 1e-9), np.full(8, -40.0)])
def test_the_one_step_that_is_far_out_is_kept(wild):
    found = {**vectors(), 777: wild}
    kept = chosen(found)
    assert {0, 776, 777, 999} <= set(kept)
    assert kept == sorted(set(kept))
    assert len(kept) == 20


def test_the_ends_of_what_is_not_finite_are_kept():
    found = vectors()
    for step in range(300, 420):
        found[step] = np.array([1.0, np.nan, np.inf])
    assert {299, 300, 419, 420} <= set(chosen(found))


def test_a_histogram_is_told_by_its_outermost_bins():
    counts = np.zeros(514, np.int64)
    counts[250:260] = 10
    wide, broken = counts.copy(), counts.copy()
    wide[400], broken[-1] = 1, 5
    found = {**dict.fromkeys(STEPS, counts), 333: wide, 888: broken}
    assert {333, 888} <= set(chosen(found, unit=BY_POWER_OF_TWO))


@pytest.mark.parametrize("many", [1, 2, 5])
def test_of_very_few_the_last_is_kept_then_the_first(many):
    kept = chosen(vectors(), many)
    assert len(kept) == many
    assert kept[-1] == 999
    assert many == 1 or kept[0] == 0


def test_a_vector_is_read_once_while_a_run_goes_on():
    source, thinning = Source(vectors()), Thinning()
    thinning.chosen(source, 1, STEPS[:900], 20)
    thinning.chosen(source, 1, STEPS, 20)
    assert source.read == 1000


def test_nothing_is_read_where_all_fits():
    source = Source(vectors())
    assert Thinning().chosen(source, 1, STEPS, 1000) == STEPS
    assert source.read == 0


def test_steps_are_taken_evenly():
    assert evenly([1, 5, 9], 0) == []
    assert evenly([], 1) == []
    assert evenly([1, 5, 9], 1) == [9]
    assert evenly([1, 5, 9], 2) == [1, 9]
    assert evenly(range(101), 5) == [0, 25, 50, 75, 100]


def test_a_report_has_the_exploded_step_and_the_count_of_all(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(contents, "TENSORS_BUDGET", 8 * 4 * 30)
    found = {step: torch.as_tensor(x) for step, x in vectors().items()}
    found[123] = torch.full((8,), 1e8)
    batches = [Batch(s, records=[Record(s, "m", "Spectrum", x)]) for s, x in found.items()]
    path = written(Store, tmp_path / "run", batches)
    page = decoded(taiyi_fx.report(path, tmp_path / "x.html"))
    assert 123 in page.vectors("m", "Spectrum")[0]
    (entry,) = page.header["runs"][0]["series"]
    assert (entry["steps"], len(page.vectors("m", "Spectrum")[0])) == (1000, 30)
