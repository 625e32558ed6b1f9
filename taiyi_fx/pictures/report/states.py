"""The state of a series: NaN and Inf, dead units, numbers that left their usual size."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taiyi_fx.quantities.health import RULES, USUAL, Rule, from_stored, may_be_undefined

_FACTOR = 10
_ENOUGH = 5

Trend = Literal["", "up", "down"]


class State(NamedTuple):
    """The state of a series.

    Attributes:
        state: ``"alert"`` if it is broken now, ``"warn"`` if it was or is unusual.
        trend: The direction in which an unusual number went.
    """

    state: Literal["ok", "warn", "alert"]
    trend: Trend = ""


def state_of(values: ArrayLike, health: str = "", unit: str = "") -> State:
    """The state of a series of numbers.

    It is an alert where the latest number is NaN or Inf, and a warning where an earlier one was,
    or where the latest number is at least ten times the median of at least five finite numbers
    before it, of the same sign. The rule of health that the quantity declares adds to that: see
    `taiyi_fx.quantities.health.RULES`.

    Args:
        values: Its numbers in the order of their steps; there may be none.
        health: The name of the rule, as runs store it. One that is not known adds nothing.
        unit: The unit of the numbers. NaN counts for nothing where it may be zero by zero, as in a
            ratio.
    """
    numbers, rule = np.asarray(values, np.float64), RULES.get(from_stored(health), USUAL)
    if may_be_undefined(unit, health):
        numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return State("ok")
    is_finite = np.isfinite(numbers)
    is_bad = ~is_finite | (numbers > 0) if rule.counts_non_finite else ~is_finite
    latest = float(numbers[-1])
    if is_bad[-1] or latest >= rule.alerts_from:
        return State("alert")
    trend = _trend(rule, latest, numbers[:-1][is_finite[:-1]])
    is_unusual = trend or latest >= rule.warns_from or is_bad.any()
    return State("warn" if is_unusual else "ok", trend)


def _trend(rule: Rule, latest: float, earlier: NDArray[np.float64]) -> Trend:
    usual = float(np.median(earlier)) if len(earlier) >= _ENOUGH else 0.0
    if usual * np.sign(latest) <= 0:
        return ""
    if abs(latest) >= _FACTOR * abs(usual):
        return "up"
    has_fallen = abs(latest) <= abs(usual) / _FACTOR
    return "down" if has_fallen and rule.lasts else ""
