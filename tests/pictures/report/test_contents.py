"""The contents of a report: the steps and series that are in it, and their order."""

import numpy as np

import taiyi_fx
from taiyi_fx.outline.items import Item, Outline
from taiyi_fx.pictures.report import contents
from taiyi_fx.pictures.report.contents import in_order, kept_steps
from taiyi_fx.pictures.report.readout import Described
from taiyi_fx.pictures.report.thin import evenly
from taiyi_fx.runs import SeriesName
from taiyi_fx.writers import Store
from tests.pictures.report.decoded import decoded
from tests.writers.runs import numbers, written


def test_very_many_numbers_are_downsampled_alike_and_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "NUMBERS_BUDGET", 24 * 1000 + 120)
    batches = [numbers(step, np.random.rand(20).tolist()) for step in range(1000)]
    batches += [numbers(step, [1.0], quantity="rare") for step in range(0, 1000, 100)]
    page = decoded(taiyi_fx.report(written(Store, tmp_path / "run", batches), tmp_path / "x.html"))
    dense, rare = page.header["runs"][0]["chunks"]
    assert not dense["raw"]
    assert (page.chunks[dense["id"]]["start"] % 10 == 0).all()
    assert dense["columns"] == 100
    assert rare["raw"]
    assert rare["columns"] == 10
    assert sum(page.chunks[dense["id"]][name].nbytes for name in ("mean", "min", "max")) == 24_000


def all_alike(series, steps, many):
    return evenly(steps, many)


def test_of_vectors_what_does_not_fit_is_left_out(tmp_path):
    vectors = dict.fromkeys(range(50), (100,))
    shapes = {1: vectors, 2: {0: (2, 2), 1: (3,)}, 3: {7: (5000,)}, 4: {3: ()}, 5: {9: (0,)}}
    assert kept_steps(shapes, 10**9, all_alike) == {1: list(range(50)), 4: [3], 5: [9]}
    kept = kept_steps(shapes, 3 * 400 * 5, all_alike)
    assert kept[1] == [0, 12, 24, 36, 49]
    many = {i: {0: (4096,), 8: (4096,)} for i in range(10)}
    assert kept_steps(many, 4096 * 4 * 2, all_alike) == {i: [8] for i in range(4)}


def test_rows_are_in_the_order_of_execution_where_it_is_known():
    modules = ["late", "early", "", "unknown", "early@1"]
    series = {i: Described(SeriesName(m, "q", "train"), "", "") for i, m in enumerate(modules)}
    items = [Item("module", m, module=m) for m in ("", "early", "early@1", "late")]
    assert in_order(series, series, Outline(tuple(items), ())) == [2, 1, 4, 0, 3]
    assert in_order([3, 0, 1], series, None) == [3, 0, 1]
