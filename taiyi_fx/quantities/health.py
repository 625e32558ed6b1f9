"""Health: the rules by which a quantity's numbers are flagged, chosen in its declaration.

A run stores the name of a rule with each series, and reports look it up here: neither needs the
declaration, nor torch. A rule of a user's own is a function, kept here by the quantity's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Health = Literal["", "share_of_trouble", "counts_non_finite", "lasting", "step_size"]
"""The name of a rule; empty where only the rules for all numbers hold."""

_OF_ERRORS = ".error"


def is_of_errors(quantity: str) -> bool:
    """True for the part of a quantity that says how exact its other parts are."""
    return quantity.endswith(_OF_ERRORS)


@dataclass(frozen=True)
class Rule:
    """Reasons to flag a series, besides those for all: NaN, Inf and a rise to ten times the usual.

    Attributes:
        words: The rule in words.
        warns_from: The latest number is a warning from here on.
        alerts_from: The latest number is an alert from here on.
        counts_non_finite: A number above zero counts as NaN or Inf itself does.
        lasts: A fall to a tenth of the usual is a warning, as a rise is.
    """

    words: str
    warns_from: float = math.inf
    alerts_from: float = math.inf
    counts_non_finite: bool = False
    lasts: bool = False


RULES: Mapping[str, Rule] = {
    "share_of_trouble": Rule(
        "a share of what is dead, too large or too small: a warning from 0.1 on, an alert from 0.5",
        warns_from=0.1,
        alerts_from=0.5,
    ),
    "counts_non_finite": Rule(
        "a count of NaN and Inf: an alert where the latest is above 0, a warning where one was",
        counts_non_finite=True,
    ),
    "lasting": Rule(
        "a size or rank that training does not wear down: a fall to a tenth is a warning too",
        lasts=True,
    ),
    "step_size": Rule(
        "the size of a step beside that of what it changes: a warning from 1 on",
        warns_from=1,
    ),
}
"""The rules by name."""

USUAL = Rule("")
"""The rule of a series without the name of one, or with a name that is not known here."""


_ALWAYS_DEFINED = ("", "elements", "share")
"""The units of numbers that always have a value."""


_UNDEFINED = " undefined"
"""The end of a rule's name, as runs store it, where a unit does not tell the same."""


def may_be_undefined(unit: str, stored: str = "") -> bool:
    """True if a definition may give NaN or Inf, which then tell of none in the model.

    Args:
        unit: The unit of the numbers: a ratio has no value of zero by zero.
        stored: The name of their rule of health, as runs store it.
    """
    return unit not in _ALWAYS_DEFINED or stored.endswith(_UNDEFINED)


def to_stored(health: str, unit: str, *, undefined: bool) -> str:
    """The name of a rule as runs store it, which says too if numbers may be undefined."""
    return health + _UNDEFINED if undefined and not may_be_undefined(unit) else health


def from_stored(stored: str) -> str:
    """The name of the rule behind a name of `to_stored`."""
    return stored.removesuffix(_UNDEFINED)


@dataclass(frozen=True)
class Verdict:
    """The judgement of a rule of one's own: what is wrong with the numbers of a series.

    Attributes:
        text: What is wrong, as the end of a sentence that begins with the quantity and its module:
            ``"is above 40 dB"``.
        step: The step since when; by default the first of the series.
        severity: ``"alert"`` if the training is broken by it, ``"warning"`` if it may be, and
            ``"note"`` for what is worth knowing.
        advice: What to check or to change.
        expected: What the numbers should be, in words.
    """

    text: str
    step: int | None = None
    severity: Literal["alert", "warning", "note"] = "warning"
    advice: str = ""
    expected: str = ""


OwnRule: TypeAlias = "Callable[[NDArray[np.int64], NDArray[np.float64]], Verdict | None]"
"""Takes the steps of a series, ascending, and its numbers to what is wrong with them, or None."""

_OWN: dict[str, OwnRule] = {}


def keep_own_rule(quantity: str, rule: OwnRule | None) -> None:
    """Keeps the rule of a quantity that is declared, or forgets one declared before."""
    if rule is None:
        _OWN.pop(quantity, None)
    else:
        _OWN[quantity] = rule


def own_rule_of(quantity: str) -> OwnRule | None:
    """The rule for a series, by its name in records: that of the quantity that it is a part of."""
    while _OWN and quantity:
        if quantity in _OWN:
            return _OWN[quantity]
        quantity = quantity.rpartition(".")[0]
    return None
