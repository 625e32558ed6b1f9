"""The state of a series, by its numbers and its quantity's rule of health."""

import numpy as np
import pytest

from taiyi_fx.pictures.report import State, state_of

NAN, INF = np.nan, np.inf
FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("health", "values", "state"),
    [
        ("", [], State("ok")),
        ("", [1], State("ok")),
        ("", [1, NAN], State("alert")),
        ("", [1, -INF], State("alert")),
        ("", [NAN, 1], State("warn")),
        ("", [INF, 1], State("warn")),
        ("", [*FIVE, 30], State("warn", "up")),
        ("", [*FIVE, 29.9], State("ok")),
        ("", [*FIVE, 0.3], State("ok")),
        ("", [*FIVE, -30], State("ok")),
        ("", [*FIVE, 0], State("ok")),
        ("", [*(-x for x in FIVE), -30], State("warn", "up")),
        ("", [0.0] * 5 + [3], State("ok")),
        ("", [*FIVE[:4], 100], State("ok")),
        ("", [NAN, *FIVE[:4], 100], State("warn")),
        ("", [NAN, *FIVE, 100], State("warn", "up")),
        ("", [0.9], State("ok")),
        ("lasting", [*FIVE, 0.3], State("warn", "down")),
        ("lasting", [*FIVE, 0.31], State("ok")),
        ("lasting", [*FIVE, 30], State("warn", "up")),
        ("share_of_trouble", [0.09], State("ok")),
        ("share_of_trouble", [0.1], State("warn")),
        ("share_of_trouble", [0.9, 0.5], State("alert")),
        ("share_of_trouble", [0.9, 0.0], State("ok")),
        ("counts_non_finite", [0, 3], State("alert")),
        ("counts_non_finite", [3, 0], State("warn")),
        ("counts_non_finite", [0, 0], State("ok")),
        ("step_size", [0.9], State("ok")),
        ("step_size", [1.0], State("warn")),
        ("step_size", [1.0, 0.9], State("ok")),
        ("step_size", [0.01] * 5 + [1.0], State("warn", "up")),
    ],
)
def test_a_series_is_in_the_state_that_its_numbers_and_its_rule_say(health, values, state):
    assert state_of(values, health) == state


def test_a_rule_of_another_version_adds_nothing():
    assert state_of([*FIVE, 0.3], "of_tomorrow") == State("ok")
    assert state_of([NAN], "of_tomorrow") == State("alert")


@pytest.mark.parametrize("unit", ["ratio", "cosine", "directions"])
def test_a_ratio_of_zero_by_zero_counts_for_nothing_and_an_infinite_one_does(unit):
    assert state_of([NAN, 1], unit=unit) == State("ok")
    assert state_of([1, NAN], unit=unit) == State("ok")
    assert state_of([NAN], unit=unit) == State("ok")
    assert state_of([*FIVE, NAN, 30], unit=unit) == State("warn", "up")
    assert state_of([NAN, INF], unit=unit) == State("alert")


def test_a_share_that_is_nan_counts():
    assert state_of([NAN, 0.5], unit="share") == State("warn")


def test_a_share_that_may_be_undefined_keeps_its_rule():
    assert state_of([NAN, 0.05], "share_of_trouble undefined", "share") == State("ok")
    assert state_of([NAN, 0.5], "share_of_trouble undefined", "share") == State("alert")
