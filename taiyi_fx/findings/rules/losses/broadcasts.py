"""Operands of a loss that broadcast: each sample of one is compared with all of the other."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

BROADCAST = Kind(
    "broadcast",
    "warning",
    "Give both operands the same shape: take .squeeze(1) of the one with an axis of one element, "
    "or .unsqueeze(1) of the other",
)


def broadcasts(evidence: Evidence) -> Iterator[Finding]:
    """Losses of all pairs of samples, by two operands of which one alone has an axis of one."""
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        for one in graph.broadcasts[:1] if graph else ():
            of = f"what {one.module!r} makes" if one.module else "a tensor"
            has_one = len(one.given) == len(one.made)
            other = "one without its axis of 1" if has_one else "one with an axis of 1 behind that"
            text = (
                f"on the way to {loss.quantity!r}, {of}, of shape {one.given}, is combined with "
                f"{other}: all samples with all, of shape {one.made}"
            )
            yield BROADCAST.at(loss, 0, text, f"shape {one.given}", module=one.module)
