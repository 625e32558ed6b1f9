"""Targets that are the inputs themselves, as of a language model whose labels are not shifted."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

COPIED_TARGETS = Kind(
    "copied_targets",
    "note",  # what is squeezed through few numbers is learnt so on purpose
    "Shift the labels by one: what the model returns at a place is to be compared with the next "
    "token, logits[:, :-1] with ids[:, 1:]",
)


def copied_targets(evidence: Evidence) -> Iterator[Finding]:
    """Losses whose targets are what an embedding is given: a warning if attention is causal."""
    ahead = [*evidence.of_quantity("AttentionAhead")]
    is_causal = bool(ahead) and not any(one.values.any() for one in ahead)
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        if graph and graph.copied:
            text = (
                f"the targets of {loss.quantity!r} are the indices that {graph.copied!r} is given, "
                "place by place: the model learns to copy"
            )
            severity = "warning" if is_causal else "note"
            expected = "the next token"
            yield COPIED_TARGETS.at(loss, 0, text, expected, module="", severity=severity)
