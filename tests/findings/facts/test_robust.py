"""Medians: one wild number changes nothing."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.robust import log10, median, smooth, spread, trailing_scores


def test_the_spread_of_normal_numbers_is_their_deviation_with_a_wild_one_too():
    numbers = np.random.default_rng(0).normal(3, 2, 20_001)
    numbers[0] = 1e30
    assert spread(numbers) == pytest.approx(2, rel=0.03)


def test_a_running_median_drops_a_spike_and_keeps_a_step():
    assert smooth(np.array([1.0, 1, 9, 1, 1, 1])).tolist() == [1.0] * 6
    assert smooth(np.array([1.0, 1, 1, 5, 5, 5]), 3).tolist() == [1, 1, 1, 5, 5, 5]


def test_the_logarithm_of_zero_is_finite():
    assert log10(np.array([100.0, -0.1, 0.0])).tolist() == pytest.approx([2, -1, -37.92], abs=0.01)


@pytest.mark.parametrize("n", [0, 1, 32, 33, 128, 129, 1152, 1153, 2500])
@pytest.mark.parametrize("kind", ["noise", "holes", "equal"])
def test_each_number_is_compared_with_the_128_before_it(n, kind):
    values = np.random.default_rng(n).normal(size=n)
    if kind == "holes":
        values[::700] = np.nan
    if kind == "equal":
        values = np.round(values / 4)
    expected = np.full((2, n), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores, usual = trailing_scores(values)
        for i in range(32, n):
            before = values[max(0, i - 128) : i]
            expected[1, i] = median(before)
            expected[0, i] = (values[i] - median(before)) / spread(before)
    assert np.array_equal(scores, expected[0], equal_nan=True)
    assert np.array_equal(usual, expected[1], equal_nan=True)
