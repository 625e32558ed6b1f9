"""Shares of what is dead, saturated, or out of a format's range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding

_STEPS = 8
_SHARE = 0.95


def shares_of_trouble(evidence: Evidence) -> Iterator[Finding]:
    """Modules of which nearly all is in trouble, and stays so."""
    for one in evidence.series:
        if one.health != "share_of_trouble" or len(one.values) < _STEPS:
            continue
        is_high = one.values >= _SHARE
        if not is_high[-max(_STEPS, len(is_high) // 2) :].all():
            continue
        others = np.flatnonzero(~is_high)
        first = int(others[-1]) + 1 if len(others) else 0
        step, value = int(one.steps[first]), float(one.values[-1])
        yield Finding(
            kind="share_of_trouble",
            severity="alert",
            module=one.module,
            quantity=one.quantity,
            step=step,
            value=value,
            expected="well below 1",
            text=f"step {step}: {one.quantity} of {one.module!r} is {value:.3g} from here on",
            advice="Almost nothing passes: look at the bias and the scale of what it is given, "
            "and lower the learning rate; a leaky activation does not die",
        )
