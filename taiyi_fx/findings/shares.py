"""Shares of what is dead, saturated, or out of a format's range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.finding import Finding, Severity

_STEPS = 8
_SHARE = 0.95
_MOST = 0.6
_GAP = 0.2
"""By which all siblings are below."""
_FEW = 2


def shares_of_trouble(evidence: Evidence) -> Iterator[Finding]:
    """Modules of which nearly all is in trouble, or far more than of their siblings."""
    series = [s for s in evidence.series if s.health == "share_of_trouble"]
    for one in series:
        if len(one.values) < _STEPS:
            continue
        if _stays(one, _SHARE):
            yield _finding(one, _SHARE, "alert")
        elif _stays(one, _MOST) and _is_odd(one, series):
            yield _finding(one, _MOST, "warning")


def _stays(one: Watched, share: float) -> bool:
    return bool((one.values[-max(_STEPS, len(one.values) // 2) :] >= share).all())


def _is_odd(one: Watched, series: list[Watched]) -> bool:
    siblings = [s for s in series if s.role == one.role and s.quantity == one.quantity]
    values = [float(np.median(s.values)) for s in siblings if s.module != one.module]
    return len(values) >= _FEW and max(values) < _MOST - _GAP


def _finding(one: Watched, share: float, severity: Severity) -> Finding:
    others = np.flatnonzero(one.values < share)
    first = int(others[-1]) + 1 if len(others) else 0
    step, value = int(one.steps[first]), float(one.values[-1])
    return Finding(
        kind="share_of_trouble",
        severity=severity,
        module=one.module,
        quantity=one.quantity,
        step=step,
        value=value,
        expected="well below 1",
        text=f"step {step}: {one.quantity} of {one.module!r} is {value:.3g} from here on",
        advice="Almost nothing passes: look at the bias and the scale of what it is given, "
        "and lower the learning rate; a leaky activation does not die",
    )
