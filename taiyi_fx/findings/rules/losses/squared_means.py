"""Losses that square a mean in place of what it is of."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

SQUARED_MEAN = Kind(
    "squared_mean",
    "warning",
    "Square first, and take the mean of that: (x - y).pow(2).mean(); where the mean itself is to "
    "be 0, and no single difference, it is right as it is",
)


def squared_means(evidence: Evidence) -> Iterator[Finding]:
    """Losses in which differences of both signs make up for each other."""
    for loss, graph in evidence.logged.graphs:
        for module in graph.squared_means[:1]:
            of = f", behind {module!r}," if module else ""
            text = (
                f"in {loss.quantity!r} the mean of all differences{of} is squared, and not each of "
                "them: what is too large in some places makes up for what is too small in others"
            )
            yield SQUARED_MEAN.at(loss, 0, text, "the mean of squares", module=module)
