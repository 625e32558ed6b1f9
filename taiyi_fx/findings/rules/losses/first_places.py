"""Losses by the first place of a sequence, which sees no other in causal attention."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

FIRST_PLACE = Kind(
    "first_place",
    "warning",
    "Take the last place of each sequence, x[:, -1], or the last that is no padding; the first one "
    "is for models whose places all see each other",
)


def first_places(evidence: Evidence) -> Iterator[Finding]:
    """Losses that take the first place alone, of a model whose attentions are all causal."""
    ahead = [*evidence.of_quantity("AttentionAhead")]
    if not ahead or any(one.values.any() for one in ahead):
        return
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        if graph and graph.first_place is not None:
            of = f"of what {graph.first_place!r} makes, " if graph.first_place else ""
            text = (
                f"{of}{loss.quantity!r} takes the first place of each sequence alone, and "
                "attention is causal: this place sees itself, and nothing of the rest"
            )
            yield FIRST_PLACE.at(loss, 0, text, "the last place", module="")
