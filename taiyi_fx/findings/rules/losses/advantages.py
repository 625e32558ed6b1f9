"""Advantages of a policy that its loss trains, too."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

TRAINED_ADVANTAGE = Kind(
    "trained_advantage",
    "warning",
    "Detach it: advantage = (returns - values).detach(); values are to learn by their own error",
)


def trained_advantages(evidence: Evidence) -> Iterator[Finding]:
    """Losses of policies by which values become what makes the product with advantages small."""
    for loss, graph in evidence.logged.graphs:
        if graph.trained_advantages:
            module = graph.trained_advantages[0]
            text = (
                f"on the way to {loss.quantity!r}, the logarithms of the actions' probabilities "
                f"are multiplied by what {module!r} returns less a constant, and it gets a "
                "gradient by that: values are trained to make bad actions look worse"
            )
            yield TRAINED_ADVANTAGE.at(loss, 0, text, "a detached advantage", module=module)
