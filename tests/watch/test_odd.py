"""Numbers at which to look at once."""

import math
import random

import pytest

from taiyi_fx.watch.odd import Spikes, is_not_finite


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
