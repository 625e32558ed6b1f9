"""BatchNorm whose running statistics do not follow the batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding

_MANY = 20
_FAR = 0.25
_SHARE = 0.45
"""Of the distance in the beginning, which running statistics halve within a few steps."""


def stale_statistics(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose running variance stays about as far from the batches' as it began."""
    for one in evidence.of_quantity("VarTID"):
        if len(one.values) < _MANY:
            continue
        value = float(np.median(one.values[len(one.values) // 2 :]))
        if not value >= max(_FAR, _SHARE * float(one.values[0])):  # nor where it is NaN
            continue
        yield Finding(
            kind="stale_statistics",
            severity="warning",
            module=one.module,
            quantity=one.quantity,
            step=int(one.steps[0]),
            value=value,
            expected=f"falling from {float(one.values[0]):.3g} to near 0.1",
            text=f"the running variance of {one.module!r} stays {value:.2g} of its size away from "
            "that of the batches: evaluation computes with other numbers than training",
            advice="Look at its momentum, whether it is in eval mode while it trains, and whether "
            "batches are too small or too different for running statistics",
        )
