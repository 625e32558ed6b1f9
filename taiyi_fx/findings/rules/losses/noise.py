"""Noise whose scale a loss takes for something else."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

ODD_NOISE = Kind(
    "odd_noise",
    "warning",
    "Multiply the noise by the deviation, exp(0.5 * logvar), of which the divergence from the "
    "prior takes the square, logvar.exp()",
)


def odd_noise(evidence: Evidence) -> Iterator[Finding]:
    """Noise times the logarithm of a variance, or times the variance, in place of the deviation."""
    for loss, graph in evidence.graphs:
        noise = graph.odd_noise
        if noise is not None:
            returned = f"what {noise.module!r} returns" if noise.module else "a number"
            times = "its exponential" if noise.is_exponential else "that number itself"
            text = (
                f"{loss.quantity!r} takes {returned} for the logarithm of a variance, and noise is "
                f"multiplied by {times}"
            )
            yield ODD_NOISE.at(loss, 0, text, "the deviation", module=noise.module)
