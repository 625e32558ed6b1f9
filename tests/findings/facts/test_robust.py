"""Medians: one wild number changes nothing."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.robust import log10, smooth, spread


def test_the_spread_of_normal_numbers_is_their_deviation_with_a_wild_one_too():
    numbers = np.random.default_rng(0).normal(3, 2, 20_001)
    numbers[0] = 1e30
    assert spread(numbers) == pytest.approx(2, rel=0.03)


def test_a_running_median_drops_a_spike_and_keeps_a_step():
    assert smooth(np.array([1.0, 1, 9, 1, 1, 1])).tolist() == [1.0] * 6
    assert smooth(np.array([1.0, 1, 1, 5, 5, 5]), 3).tolist() == [1, 1, 1, 5, 5, 5]


def test_the_logarithm_of_zero_is_finite():
    assert log10(np.array([100.0, -0.1, 0.0])).tolist() == pytest.approx([2, -1, -37.92], abs=0.01)
