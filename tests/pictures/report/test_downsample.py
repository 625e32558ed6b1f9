"""Columns of a report against sums of exact fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.pictures.report.downsample import downsample, number_type, sorted_numbers, widths

NAN, INF = math.nan, math.inf
POINTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.floats() | st.sampled_from([NAN, INF, 0.5]))
)


def folded(points, rows, width):
    row, step, value = (
        np.array(x, kind)
        for x, kind in zip(
            zip(*points, strict=True) if points else ([], [], []),
            (np.int64, np.int64, np.float64),
            strict=True,
        )
    )
    return downsample(sorted_numbers(rows, row, step, value), width)


@given(POINTS, st.sampled_from([1, 2, 10, 100]))
def test_a_column_is_what_its_numbers_come_to(points, width):
    found = folded(points, 4, width)
    steps = sorted({step for _, step, _ in points})
    stretches = [list(group) for _, group in itertools.groupby(steps, lambda s: s // width)]
    assert found.start.tolist() == [s[0] for s in stretches]
    assert found.end.tolist() == [s[-1] for s in stretches]
    for row, column in itertools.product(range(4), range(len(stretches))):
        inside = [v for r, s, v in points if r == row and s in stretches[column]]
        finite = [v for v in inside if math.isfinite(v)]
        assert found.count[row, column] == len(finite)
        assert found.nan[row, column] == sum(map(math.isnan, inside))
        assert found.inf[row, column] == sum(map(math.isinf, inside))
        numbers = [x[row, column] for x in (found.mean, found.min, found.max)]
        if finite:
            mean, low, high = numbers
            assert (low, high) == (min(finite), max(finite))
            exact = sum(map(Fraction, finite)) / len(finite)
            size = max(map(abs, finite))
            assert abs(Fraction(mean) - exact) <= Fraction(size) * 2**-40 + Fraction(5e-324) * 60
            assert low <= mean <= high
        else:
            assert np.isnan(numbers).all()


@given(POINTS)
def test_a_number_alone_in_its_column_is_itself(points):
    points = list({(row, step): (row, step, value) for row, step, value in points}.values())
    found = folded(points, 4, 1)
    assert found.is_raw
    for row, step, value in points:
        (column,) = np.flatnonzero(found.start == step)
        if math.isfinite(value):
            assert found.mean[row, column] == value


@pytest.mark.parametrize(
    ("points", "width", "is_raw"),
    [
        ([], 1, True),
        ([(0, 1, 2.0), (0, 2, 3.0)], 1, True),
        ([(0, 1, 2.0), (0, 1, 3.0)], 1, False),
        ([(0, 1, NAN), (0, 1, INF)], 1, False),
        ([(0, 1, 2.0), (1, 2, 3.0)], 10, False),
        ([(0, 0, 2.0), (1, 10, 3.0)], 10, True),
    ],
)
def test_a_chunk_is_raw_where_no_number_shares_its_place(points, width, is_raw):
    assert folded(points, 2, width).is_raw is is_raw


def test_numbers_of_a_step_stay_in_the_order_of_their_making():
    rows, steps = np.array([1, 0, 1, 0, 1]), np.array([5, 3, 2, 3, 5])
    found = sorted_numbers(2, rows, steps, np.arange(5.0))
    assert found.row.tolist() == [0, 0, 1, 1, 1]
    assert found.step.tolist() == [3, 3, 2, 5, 5]
    assert found.value.tolist() == [1, 3, 2, 0, 4]


def test_many_series_are_sorted_as_few_are():
    rows = np.array([40_000, 3, 40_000, 3])
    found = sorted_numbers(50_000, rows, np.array([2, 1, 1, 1]), np.arange(4.0))
    assert found.row.tolist() == [3, 3, 40_000, 40_000]
    assert found.value.tolist() == [1, 3, 2, 0]


def test_widths_are_round():
    first = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000]
    assert list(itertools.islice(widths(), 12)) == first


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "<f4"),
        ([0.0, NAN, INF, 1.0], "<f4"),
        ([3.4e38], "<f4"),
        ([-3.5e38], "<f8"),
        ([1.2e-38, 0.0], "<f4"),
        ([-1.1e-38], "<f8"),
    ],
)
def test_numbers_are_float32_where_that_has_their_range(values, kind):
    assert number_type(np.array(values, np.float64)).str == kind
