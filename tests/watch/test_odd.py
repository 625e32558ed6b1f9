"""Numbers at which to look at once."""

import math
import random

import pytest

from taiyi_fx.watch.odd import Jumps, Spikes, is_not_finite


@pytest.mark.parametrize(
    ("values", "is_count", "odd"),
    [
        ([1.0, 2.0], False, False),
        ([1.0, math.nan], False, True),
        ([math.inf, -math.inf], False, True),
        ([1e308, 1e308], False, False),
        ([0, 0], True, False),
        ([0, 3], True, True),
        ([], False, False),
    ],
)
def test_numbers_are_finite_unless_one_is_not(values, is_count, odd):
    assert is_not_finite(values, is_count=is_count) is odd


def of(losses):
    spikes = Spikes()
    return [i for i, loss in enumerate(losses) if spikes.is_one(loss)]


def test_a_loss_far_above_the_last_ones_is_a_spike():
    noise = random.Random(0)
    falling = [2 * 0.99**i + noise.gauss(0, 0.05) for i in range(300)]
    assert of(falling) == []
    falling[200] += 2
    assert of(falling) == [200]


def test_few_losses_equal_ones_and_those_that_are_not_finite_have_no_spike():
    assert of([1.0] * 20 + [9.0]) == []
    assert of([1.0] * 50 + [1.001]) == []
    assert of([1.0] * 50 + [math.nan, math.inf]) == []
    assert of([1.0] * 50 + [1.1]) == [50]


def jumps(values):
    found = Jumps()
    return [i for i, value in enumerate(values) if found.is_one(value)]


def test_a_number_a_hundred_times_the_largest_before_is_a_jump():
    assert jumps([1.0] * 8 + [101.0, 101.0, 99.0, 1e5]) == [8, 11]
    assert jumps([1.0] * 8 + [100.0]) == []
    assert jumps([1.03**i for i in range(300)]) == []


def test_few_numbers_zeros_and_what_is_not_finite_have_no_jump():
    assert jumps([1.0] * 7 + [1e9]) == []
    assert jumps([0.0] * 20 + [5.0]) == []
    assert jumps([1.0] * 10 + [math.inf, math.nan, 2.0]) == []
