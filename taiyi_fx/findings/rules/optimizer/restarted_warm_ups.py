"""Learning rates that fall back to the beginning of a warm-up again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FALL = 0.5
"""The share of the rate that is left after one of the falls: after others, at which it is read some
steps later, it may have climbed already.
"""
_FEWEST = 3
"""Falls that are no accident: runs may be resumed."""
_CLIMBS = 2
"""Times the falls: so often it has to climb."""
_STRAIGHT = 0.05
"""The largest difference of a slope from half of all: warm-ups are straight, and no other curve
looks so at whichever steps it is read."""

RESTARTED_WARM_UP = Kind(
    "restarted_warm_up",
    "warning",
    "Count the steps of the warm-up over the whole training, not within an epoch, and make the "
    "scheduler once, before the loop",
)


def restarted_warm_ups(evidence: Evidence) -> Iterator[Finding]:
    """Rates that climb, fall at one step, and climb from there anew, all the time.

    Rates that oscillate on purpose come down as they went up, and restarts jump up and decay.
    """
    for one in (s for s in evidence.series if s.quantity.split(".")[0] == "LearningRate"):
        falls = _falls(one)
        if len(falls) >= _FEWEST:
            first, last = one.values[falls[0] - 1], one.values[falls[0]]
            text = (
                f"{one.quantity} climbs to {first:.3g} and falls back to {last:.3g} by step "
                f"{one.steps[falls[0]]}, and so {len(falls)} times and more: a warm-up that begins "
                "anew"
            )
            yield RESTARTED_WARM_UP.at(one, int(falls[0]), text, "one warm-up", value=float(last))
            return


def _falls(one: Watched) -> list[int]:
    """The places of falls, if the rate climbs as fast at all other steps."""
    falls = np.flatnonzero(np.diff(one.values) < 0)
    climbs = np.delete(np.diff(one.values) / np.diff(one.steps), falls)
    is_deep = (one.values[falls + 1] < _FALL * one.values[falls]).any()
    if not is_deep or (np.diff(falls) == 1).any() or len(climbs) < _CLIMBS * len(falls):
        return []
    usual = median(climbs)
    is_straight = bool((np.abs(climbs - usual) <= _STRAIGHT * usual).all())
    return [int(i) + 1 for i in falls] if usual > 0 and is_straight else []
