"""What moved before a loss did."""

import numpy as np

from taiyi_fx.findings.facts.movers import moved_first
from tests.findings.given import evidence


def noisy(seed, jump=None):
    values = np.exp(np.random.default_rng(seed).normal(0, 0.1, 60))
    if jump is not None:
        values[jump:] *= 100
    return values


def test_the_earliest_comes_first_and_what_moved_later_is_left_out():
    numbers = {
        ("a", "OutputRMS"): noisy(0),
        ("b", "OutputRMS"): noisy(1, 50),
        ("c", "UpdateRatio.weight"): noisy(2, 48),
        ("d", "OutputRMS"): noisy(3, 52),
    }
    text = moved_first(evidence(numbers), 50)
    assert text == ("; UpdateRatio.weight of 'c' (step 48), OutputRMS of 'b' (step 50) moved first")


def test_nothing_is_said_where_nothing_moved_or_nobody_knows_the_usual():
    assert moved_first(evidence({("a", "OutputRMS"): noisy(0)}), 50) == ""
    assert moved_first(evidence({("a", "OutputRMS"): noisy(1, 10)}), 12) == ""


def test_a_rate_that_is_set_is_no_number_that_moved_and_the_model_has_no_name():
    numbers = {("", "LearningRate"): noisy(0, 47), ("", "GradNorm"): noisy(1, 48)}
    numbers["a", "OutputRMS"] = noisy(2, 49)
    text = moved_first(evidence(numbers), 50)
    assert text == "; GradNorm (step 48), OutputRMS of 'a' (step 49) moved first"


def test_what_moved_long_before_or_came_back_led_to_nothing():
    numbers = {("a", "OutputRMS"): noisy(1, 55)}
    assert moved_first(evidence(numbers, 50 * np.arange(60)), 50 * 59) == (
        "; OutputRMS of 'a' (step 2900) moved first"
    )
    back = noisy(0)
    back[52:55] *= 100
    assert moved_first(evidence({("a", "OutputRMS"): back}), 58) == ""
