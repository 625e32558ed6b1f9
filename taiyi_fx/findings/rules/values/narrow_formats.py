"""Sites that would lose more than others in a narrower format: those to keep in a wider one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 4
"""Sites below which there are none to compare with."""
_DECIBELS = 6.0
"""The distance from half of all that counts: a bit of precision, or twice the noise."""
_SHOWN = 8

KEEP_WIDER = Kind(
    "keep_wider",
    "note",
    "Keep these in bfloat16 where the others are in the narrower format",
)


def keep_wider(evidence: Evidence) -> Iterator[Finding]:
    """Sites whose features have far less signal beside a format's noise than those of others."""
    by_quantity: dict[str, list[Watched]] = {}
    for one in evidence.series:
        if one.quantity.endswith(".typical") and "SQNR" in one.quantity and _is_long(one):
            by_quantity.setdefault(one.quantity, []).append(one)
    for every in by_quantity.values():
        yield from _of_quantity(every)


def _of_quantity(every: list[Watched]) -> Iterator[Finding]:
    ratios = {s.module: median(s.last_half) for s in every}
    usual = median([*ratios.values()])
    far = usual - _DECIBELS
    low = sorted((s for s in every if math.inf > ratios[s.module] <= far), key=_ratio)
    if len(every) < _FEW or not low:
        return
    first = low[0]
    ranked = [f"{s.module!r} ({ratios[s.module]:.0f} dB)" for s in low[:_SHOWN]]
    more = f" and {len(low) - _SHOWN} more" if len(low) > _SHOWN else ""
    text = (
        f"{first.quantity}: half of all sites have {usual:.0f} dB or more, and in the order in "
        f"which they lose most, less have {', '.join(ranked)}{more}"
    )
    expected = f"{usual:.0f} dB"
    yield KEEP_WIDER.at(first, 0, text, expected, value=ratios[first.module])


def _is_long(s: Watched) -> bool:
    return len(s.values) >= STEPS


def _ratio(s: Watched) -> float:
    return median(s.last_half)
