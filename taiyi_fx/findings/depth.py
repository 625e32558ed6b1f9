"""Gradients over depth: they vanish or explode on their way back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import log10

_STEPS = 8
_DEEP = 5
"""Modules below which there is no depth to speak of."""
_POWERS = 3.5
"""Powers of ten between the first module's gradient and the last one's."""

_ADVICE = (
    "Use residual connections, normalization, another activation, or an initialisation that keeps "
    "the scale of gradients"
)
VANISHING = Kind("vanishing_gradient", "warning", _ADVICE)
EXPLODING = Kind("exploding_gradient", "warning", _ADVICE)


def chains(evidence: Evidence) -> Iterator[Finding]:
    """Gradients that shrink or grow by a steady factor from module to module."""
    every = evidence.of_quantity("OutputGradRMS", "OutputGradSndNorm")
    series = [s for s in every if len(s.values) >= _STEPS and (s.values > 0).all()]
    if len(series) < _DEEP:
        return
    sizes = np.array([float(np.median(log10(s.last_half))) for s in series])
    slope, _ = np.polyfit(np.arange(len(sizes)), sizes, 1)
    total = float(slope * (len(sizes) - 1))
    if abs(total) < _POWERS or abs(sizes[-1] - sizes[0]) < _POWERS:
        return
    first, last = series[0], series[-1]
    kind, word = (VANISHING, "shrink") if total > 0 else (EXPLODING, "grow")
    text = (
        f"gradients {word} by a factor of {np.power(10.0, abs(total)):.1e} on their way from "
        f"{last.module!r} back to {first.module!r}"
    )
    expected = f"near {float(last.values[-1]):.3g}, as of {last.module!r}"
    yield kind.at(first, 0, text, expected, value=float(first.values[-1]))
