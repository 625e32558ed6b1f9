"""Whether a series needs a look: NaN and Inf, dead units, numbers that left their usual size."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

TROUBLE = re.compile(
    r"(?:OutputDeathRate|DeadNeuronRatio|ParameterGradDeathRate"
    r"|(?:Input|OutputGrad|WeightGrad|Weight)?(?:Over|Under)flowRate)\b"
)
"""Quantities that are shares of elements which are dead, too large or too small."""

NON_FINITE = re.compile(r"(?:Input|OutputGrad)?NonFinite\b")
"""Quantities that count elements which are NaN or infinite."""

LASTING = re.compile(
    r"(?:InputAbsMax|InputRMS|InputSndNorm|InputStd|InputCovMaxEig|InputCovStableRank"
    r"|InputParticipationRatio|OutputAbsMax|OutputNorm|OutputRMS|OutputActivationRate"
    r"|ParticipationRatio|RankMe|ParameterNorm|ParameterRMS|WeightNorm)\b"
)
"""Quantities that training does not wear down: sizes and ranks of layers' values and weights.

Losses, learning rates, gradients, updates, noise and TID fall as training goes well.
"""

STEP = re.compile(r"UpdateRatio\b")
"""Quantities of how far a parameter moved, beside its size."""

_MANY, _SOME = 0.5, 0.1
_WHOLE = 1
_FACTOR = 10
_ENOUGH = 5

Trend = Literal["", "up", "down"]


class State(NamedTuple):
    """Whether a series needs a look.

    Attributes:
        state: ``"alert"`` if it is broken now, ``"warn"`` if it was or is unusual.
        trend: Where an unusual number went.
    """

    state: Literal["ok", "warn", "alert"]
    trend: Trend = ""


def state_of(quantity: str, values: ArrayLike) -> State:
    """The state of a series of numbers.

    It is an alert where the latest number is NaN or Inf or counts such elements, or where a share
    of dead, too large or too small elements is at least one half. It is a warning where one of the
    first was so before, where such a share is at least a tenth, where a step is as long as what it
    changes, or where the latest number is at least ten times the median of at least five finite
    numbers before it, of the same sign. At most a tenth of that median is a warning where a fall is
    no part of training that goes well: for sizes and ranks of values and weights (`LASTING`).

    Args:
        quantity: Its name in records.
        values: Its numbers in the order of their steps; there may be none.
    """
    numbers = np.asarray(values, np.float64)
    if not numbers.size:
        return State("ok")
    is_finite = np.isfinite(numbers)
    is_bad = ~is_finite | (numbers > 0) if NON_FINITE.match(quantity) else ~is_finite
    share = numbers[-1] if TROUBLE.match(quantity) else 0
    if is_bad[-1] or share >= _MANY:
        return State("alert")
    is_far = STEP.match(quantity) is not None and numbers[-1] >= _WHOLE
    trend = _trend(quantity, float(numbers[-1]), numbers[:-1][is_finite[:-1]])
    is_unusual = trend or is_far or share >= _SOME or is_bad.any()
    return State("warn" if is_unusual else "ok", trend)


def _trend(quantity: str, latest: float, earlier: NDArray[np.float64]) -> Trend:
    usual = float(np.median(earlier)) if len(earlier) >= _ENOUGH else 0.0
    if usual * np.sign(latest) <= 0:
        return ""
    if abs(latest) >= _FACTOR * abs(usual):
        return "up"
    has_fallen = abs(latest) <= abs(usual) / _FACTOR
    return "down" if has_fallen and LASTING.match(quantity) else ""
