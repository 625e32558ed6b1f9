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
_KEPT = "Keep the axis: x - x.mean(1, keepdim=True), and likewise of std, var, sum and norm"


def broadcasts(evidence: Evidence) -> Iterator[Finding]:
    """Losses of all pairs of samples, by operands of which one lacks an axis; means likewise."""
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
        for one in graph.lost_axes[-1:] if graph else ():  # nodes come from the loss back
            of = f"what {one.module!r} makes" if one.module else "a tensor"
            text = (
                f"on the way to {loss.quantity!r}, {of}, of shape {one.of}, is combined with its "
                f"own mean, sum or size along an axis, of shape {one.given}: that of one sample "
                "meets another axis of all samples"
            )
            others = {"module": one.module, "advice": _KEPT}
            yield BROADCAST.at(loss, 0, text, "keepdim=True", **others)
