"""Differences of runs: what differs more than seeds do comes first."""

import numpy as np
import pytest
from numpy.random import default_rng

import taiyi_fx
from taiyi_fx.pictures.report.differences import MOST, differences, sizes
from taiyi_fx.writers import Store
from tests.pictures.report.decoded import decoded
from tests.writers.runs import numbers, written


def key(name):
    return (name, "OutputRMS", "train")


def run(**logs):
    return {key(name): value for name, value in logs.items()}


def test_without_seeds_the_largest_factor_comes_first():
    found = differences([[run(a=0.0, b=0.0)], [run(a=1.0, b=-2.0)]])
    assert [(one.module, one.factor, one.spread) for one in found] == [
        ("b", pytest.approx(0.01), None),
        ("a", pytest.approx(10), None),
    ]


def test_what_differs_more_than_seeds_do_comes_first():
    seeds = [run(noisy=0.0, steady=0.0), run(noisy=1.0, steady=0.02), run(noisy=0.4, steady=0.01)]
    found = differences([seeds, [run(noisy=1.5, steady=0.3)]])
    assert [one.module for one in found] == ["steady", "noisy"]
    assert found[0].spread == pytest.approx(10**0.02)


def test_of_several_groups_each_is_compared_with_the_first():
    found = differences([[run(a=0.0)] * 2, [run(a=0.5)] * 3, [run(a=1.0, more=9.0)]])
    assert [(one.module, one.place) for one in found] == [("a", 5), ("a", 2)]


def test_a_page_has_the_first_of_very_many():
    random = default_rng(0)
    one, other = ({key(f"m{i}"): random.normal() for i in range(200)} for _ in range(2))
    assert len(differences([[one], [other]])) == MOST


def test_a_difference_is_beyond_the_spread_of_a_group_or_of_what_is_believed():
    seeds = [run(a=0.0, b=0.0, c=0.0), run(a=0.5, b=0.0, c=0.0)]
    found = {one.module: one for one in differences([seeds, [run(a=0.4, b=0.1, c=0.001)]])}
    assert {name for name, one in found.items() if one.is_beyond_spread} == {"b"}
    alone = differences([[run(a=0.0, b=0.0)], [run(a=-0.1, b=0.001)]])
    assert [one.module for one in alone if one.is_beyond_spread] == ["a"]


def test_a_size_is_the_median_of_the_second_half():
    class Numbers:
        entry = {"kind": "numbers", "arrays": [{"name": "start"}, {"name": "mean"}]}
        arrays = (np.zeros(6), np.array([[9.0, 9, 9, 10, np.nan, 100], [0.0] * 6]))

    told = {"quantity": "OutputRMS", "mode": "train", "chunk": 0}
    series = [{**told, "module": "a", "row": 0}, {**told, "module": "b", "row": 1}]
    assert sizes(series, [Numbers()]) == {key("a"): pytest.approx(1.0)}


def test_a_report_of_groups_ranks_by_their_seeds(tmp_path):
    random = default_rng(1)

    def made(name, factor):
        steps = [[random.lognormal(0, 1), factor] for _ in range(30)]
        return written(Store, tmp_path / name, [numbers(s, x) for s, x in enumerate(steps)])

    one = [made(f"a{i}", 1 + 0.001 * i) for i in range(3)]
    two = [made(f"b{i}", 1.5 + 0.001 * i) for i in range(2)]
    page = decoded(taiyi_fx.report(one, two, tmp_path / "x.html"))
    runs = page.header["runs"]
    assert [run["name"] for run in runs] == ["a0", "a1", "a2", "b0", "b1"]
    (first, *_) = page.header["differences"]
    changed = runs[0]["series"][1]["module"]
    assert (first["module"], first["place"]) == (changed, 3)
    assert first["factor"] == pytest.approx(1.5, rel=0.01)
    assert first["spread"] == pytest.approx(1.002, rel=0.001)


def test_how_exact_a_quantity_is_makes_no_difference():
    of_error = ("a", "AttentionEntropy.error", "train")
    found = differences([[{**run(a=0.0), of_error: -9.0}], [{**run(a=1.0), of_error: -3.0}]])
    assert [one.quantity for one in found] == ["OutputRMS"]
