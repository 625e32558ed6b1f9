"""Exponential growth, and the step at which a format's range ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import log10
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_MANY = 16
_FIT = 0.97
"""The share of the variance that a straight line explains, on a logarithmic axis."""
_POWERS = 2.0
"""Powers of ten grown over the last half."""
_LARGEST = np.log10(np.finfo(np.float32).max)

GROWTH = Kind(
    "growth",
    "warning",
    "Something feeds itself: look for a learning rate that is too large, a missing normalization, "
    "or a state that is carried from step to step",
)


def growth(evidence: Evidence) -> Iterator[Finding]:
    """Weights, or what modules compute, that grow by a steady factor at each step."""
    for one in evidence.of_quantity("WeightNorm", "WeightSpectralNorm", "OutputRMS"):
        found = _of_series(one)
        if found is not None:
            yield found


def _of_series(one: Watched) -> Finding | None:
    one = one.at(~np.isnan(one.values))  # each NaN is told of by itself
    half = len(one.values) // 2
    if half < _MANY or (one.values[half:] <= 0).any():
        return None
    steps, sizes = one.steps[half:].astype(np.float64), log10(one.values[half:])
    if sizes[-1] - sizes[0] < _POWERS:
        return None
    slope, start = np.polyfit(steps, sizes, 1)
    left = sizes - (slope * steps + start)
    if slope <= 0 or left.var() > (1 - _FIT) * sizes.var():
        return None
    doubling = np.log10(2) / slope
    end = int(steps[-1] + (_LARGEST - sizes[-1]) / slope)
    text = (
        f"{one.quantity} of {one.module!r} doubles every {doubling:.3g} steps, and reaches the end "
        f"of float32 at about step {end}"
    )
    expected = f"near {float(one.values[0]):.3g}, as in the beginning"
    return GROWTH.at(one, half, text, expected, value=float(one.values[-1]))
