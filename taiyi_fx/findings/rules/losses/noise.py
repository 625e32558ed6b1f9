"""Logarithms of scales that a loss takes for something else, or with the wrong sign."""

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
    for loss, graph in evidence.logged.graphs:
        noise = graph.odd_noise
        if noise is not None:
            returned = f"what {noise.module!r} returns" if noise.module else "a number"
            times = "its exponential" if noise.is_exponential else "that number itself"
            text = (
                f"{loss.quantity!r} takes {returned} for the logarithm of a variance, and noise is "
                f"multiplied by {times}"
            )
            yield ODD_NOISE.at(loss, 0, text, "the deviation", module=noise.module)


TURNED_SIGN = Kind(
    "turned_sign",
    "warning",
    "Turn the sign of the term, or that of the exponent: the negative likelihood of a normal "
    "distribution is (log_var + error * exp(-log_var)) / 2; from that of a flow the log "
    "determinant is subtracted; an encoder's divergence from the prior is added",
)


def turned_signs(evidence: Evidence) -> Iterator[Finding]:
    """Losses that are the least where a factor of what they are computed of is nothing."""
    for loss, graph in evidence.logged.graphs:
        if graph.turned_signs:
            names = graph.turned_signs
            returned = f"what {names[0]!r} returns" if names[0] else "a parameter of the model"
            more = f", and {len(names) - 1} more like it" if names[1:] else ""
            text = (
                f"{loss.quantity!r} has {returned} as a term, and its exponential as a factor of "
                f"others{more}: their signs leave the loss without a lower bound"
            )
            yield TURNED_SIGN.at(loss, 0, text, "the other sign", module=names[0])
