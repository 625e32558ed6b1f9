"""BatchNorm whose running statistics do not follow the batches."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import median

_MANY = 40
_FAR = 0.3
_SHARE = 0.45
"""Of the distance in the beginning, which running statistics halve within a few steps."""
_LATEST, _STAYS = 8, 0.8
"""The latest numbers, and their share of those of the last half: of less, it still falls."""

STALE = Kind(
    "stale_statistics",
    "warning",
    "Look at its momentum, whether it is in eval mode while it trains, and whether batches are too "
    "small or too different for running statistics",
)


def stale_statistics(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose running variance stays about as far from the batches' as it began."""
    for one in evidence.of_quantity("VarTID"):
        value, first = median(one.last_half), float(one.values[0])
        if len(one.values) < _MANY or not value >= max(_FAR, _SHARE * first):  # nor where NaN
            continue
        if median(one.values[-_LATEST:]) < _STAYS * value:
            continue
        text = (
            f"the running deviations of {one.module!r} stay {value:.0%} away from those of the "
            "batches: evaluation computes with other numbers than training"
        )
        yield STALE.at(one, 0, text, f"falling from {first:.3g} to near 0.1", value=value)
