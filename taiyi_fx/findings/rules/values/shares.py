"""Shares of what is dead, saturated, or out of a format's range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding, Severity
from taiyi_fx.findings.kind import Kind

_SHARE = 0.95
_MOST = 0.6
_GAP = 0.2
"""By which all siblings are below."""
_FEW = 2
_DEVIATIONS = 2.0
"""Of the number of units that are dead by chance, each as likely as not."""
_OF_ROWS = 3
"""Axes of rows, of which the last is that of units; it is the second of pictures."""

SHARE_OF_TROUBLE = Kind(
    "share_of_trouble",
    "alert",
    "Almost nothing passes: look at the bias and the scale of what it is given, and lower the "
    "learning rate; a leaky activation does not die",
)


def shares_of_trouble(evidence: Evidence) -> Iterator[Finding]:
    """Modules of which nearly all is in trouble, or far more than of their siblings."""
    series = [
        s
        for s in evidence.series
        # `formats` looks at those of a format, and `routers` at those of experts.
        if s.health == "share_of_trouble" and not s.quantity.endswith(("flowRate", "DeadExperts"))
    ]
    for one in series:
        if lasting(one.values >= _SHARE):
            yield _finding(one, _SHARE, "alert")
        elif lasting(one.values >= _most(one, evidence)) and _is_odd(one, series):
            yield _finding(one, _MOST, "warning")


def _most(one: Watched, evidence: Evidence) -> float:
    """The share of a module's units that is many: of few units, more than chance leaves dead.

    Where a mean over all places is what units are given, as in squeeze and excitation, each is on
    for nearly all samples, or off for them, from the start.
    """
    shape = [int(n) for n in evidence.flow.shape_before(one.module).split("×") if n.isdecimal()]
    units = shape[1 if len(shape) > _OF_ROWS else -1] if shape else np.inf
    return max(_MOST, 0.5 + _DEVIATIONS * 0.5 / np.sqrt(units))


def _is_odd(one: Watched, series: list[Watched]) -> bool:
    siblings = [s for s in series if s.role == one.role and s.quantity == one.quantity]
    values = [median(s.values) for s in siblings if s.module != one.module]
    return len(values) >= _FEW and max(values) < _MOST - _GAP


def _finding(one: Watched, share: float, severity: Severity) -> Finding:
    i, value = since(one.values >= share), float(one.values[-1])
    text = f"step {one.steps[i]}: {one.quantity} of {one.module!r} is {value:.3g} from here on"
    return SHARE_OF_TROUBLE.at(one, i, text, "well below 1", value=value, severity=severity)
