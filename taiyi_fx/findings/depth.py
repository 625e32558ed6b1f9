"""Gradients over depth: they vanish or explode on their way back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.robust import log10

_STEPS = 8
_DEEP = 5
"""Modules below which there is no depth to speak of."""
_POWERS = 3.5
"""Powers of ten between the first module's gradient and the last one's."""


def chains(evidence: Evidence) -> Iterator[Finding]:
    """Gradients that shrink or grow by a steady factor from module to module."""
    every = evidence.of_quantity("OutputGradRMS", "OutputGradSndNorm")
    series = [s for s in every if len(s.values) >= _STEPS and (s.values > 0).all()]
    if len(series) < _DEEP:
        return
    sizes = np.array([float(np.median(log10(s.values[len(s.values) // 2 :]))) for s in series])
    slope, _ = np.polyfit(np.arange(len(sizes)), sizes, 1)
    total = float(slope * (len(sizes) - 1))
    if abs(total) < _POWERS or abs(sizes[-1] - sizes[0]) < _POWERS:
        return
    first, last = series[0], series[-1]
    kind = "vanishing_gradient" if total > 0 else "exploding_gradient"
    yield Finding(
        kind=kind,
        severity="warning",
        module=first.module,
        quantity=first.quantity,
        step=int(first.steps[0]),
        value=float(first.values[-1]),
        expected=f"near {float(last.values[-1]):.3g}, as of {last.module!r}",
        text=f"gradients {'shrink' if total > 0 else 'grow'} by a factor of "
        f"{np.power(10.0, abs(total)):.1e} on their way from {last.module!r} back to "
        f"{first.module!r}",
        advice="Use residual connections, normalization, another activation, or an initialisation "
        "that keeps the scale of gradients",
    )
