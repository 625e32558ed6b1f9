"""Scores of attention that are scaled the wrong way round."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

GROWN_SCORES = Kind(
    "grown_scores",
    "warning",
    "Divide them by it, q @ k.transpose(-2, -1) * head_dim**-0.5: multiplied, their softmax is all "
    "or nothing, and hardly any gradient comes back through it",
)


def grown_scores(evidence: Evidence) -> Iterator[Finding]:
    """Attentions whose scores are multiplied by the square root of the heads' size."""
    for loss, graph in evidence.logged.graphs:
        if graph.grown_scores:
            one = graph.grown_scores[-1]  # nodes come from the loss back
            of = f"behind {one.module!r}" if one.module else "of attention"
            others = len(graph.grown_scores) - 1
            more = f", and so are those of {others} more" if others else ""
            text = (
                f"on the way to {loss.quantity!r}, scores {of} are multiplied by {one.factor:.3g}, "
                f"the square root of the {one.features} features of a head{more}"
            )
            expected = f"{1 / one.factor:.3g} of them"
            yield GROWN_SCORES.at(loss, 0, text, expected, module=one.module, value=one.factor)
