"""Health: the named rules by which a quantity's numbers are flagged, chosen in its declaration.

A run stores the rule's name with each series, and reports look the rule up here: neither needs the
declaration, nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Health = Literal["", "share_of_trouble", "counts_non_finite", "lasting", "step_size"]
"""The name of a rule; empty where only the rules for all numbers hold."""


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
