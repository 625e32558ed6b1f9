"""A loss that begins at a wild size, by which the first steps are wild, too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values
from taiyi_fx.findings.finding import Finding, Severity
from taiyi_fx.findings.kind import Kind

_LARGE = 1e4
"""Sums over the elements of a batch are smaller, mostly."""
_USUAL = 10.0
"""The size of outputs that make no such loss: it is of what they are compared with."""
_MANY, _FALLS = 50, 0.5
"""Numbers after which a loss that steps of a usual size lower has come down to half."""
_FIRST, _STEP = 3, 0.5
"""Steps of the beginning, and the size of one beside the weight by which it is another."""

WILD_LOSS = Kind(
    "wild_loss",
    "note",  # it is no fault where steps are usual, as those of Adam are
    "Look at the scale of the targets, and whether the loss is a mean or a sum: normalize targets "
    "as inputs are",
)


def wild_losses(evidence: Evidence) -> Iterator[Finding]:
    """Losses that are far from 1 at the first step, though all outputs are of a usual size."""
    for loss in evidence.losses if evidence.is_from_the_start else ():
        first = float(loss.values[0])
        largest = max(
            (float(s.values[0]) for s in evidence.of_quantity("OutputRMS")), default=np.inf
        )
        if np.isfinite(first) and abs(first) >= _LARGE and largest <= _USUAL:
            text = (
                f"{loss.quantity!r} begins at {first:.3g}, though no module returns more than "
                f"{largest:.3g} in size"
            )
            severity = _severity(loss.values, evidence)
            yield WILD_LOSS.at(loss, 0, text, "near 1", module="", severity=severity)


def _severity(values: Values, evidence: Evidence) -> Severity:
    if _are_steps_large(evidence):
        return "alert"
    is_left = len(values) >= _MANY and median(values[-_MANY // 2 :]) > _FALLS * values[0]
    return "warning" if is_left else "note"


def _are_steps_large(evidence: Evidence) -> bool:
    """True if the first steps are as large as the weights they change."""
    every = (s for s in evidence.of_each("UpdateRatio") if "weight" in s.quantity)
    return any(
        (s.values[:_FIRST] >= _STEP).any() for s in every if not evidence.began_at_zero(s.module)
    )
