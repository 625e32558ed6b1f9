"""Axes that are mistaken on the way to a loss, by operands that broadcast and by views."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

BROADCAST = Kind(
    "broadcast",
    "alert",
    "Give both operands the same shape: take .squeeze(1) of the one with an axis of one element, "
    "or .unsqueeze(1) of the other",
)
_KEPT = "Keep the axis: x - x.mean(1, keepdim=True), and likewise of std, var, sum and norm"


def broadcasts(evidence: Evidence) -> Iterator[Finding]:
    """Losses of all pairs of samples, by operands of which one lacks an axis; means likewise."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.broadcasts[:1]:
            has_one = len(one.given) == len(one.made)
            other = one.given[:-1] if has_one else (*one.given, 1)
            text = (
                f"on the way to {loss.quantity!r}, {one.source}, of shape {one.given}, is combined "
                f"with a tensor of shape {other}: they broadcast to {one.made}, each sample with "
                "all others"
            )
            yield BROADCAST.at(loss, 0, text, f"shape {one.given}", module=one.module)
        for one in graph.lost_axes[-1:]:  # nodes come from the loss back
            text = (
                f"on the way to {loss.quantity!r}, {one.source}, of shape {one.given}, is combined "
                f"with its own mean, sum or size along an axis, of shape {one.made}: that of one "
                "sample meets another axis of all samples"
            )
            others = {"module": one.module, "advice": _KEPT}
            yield BROADCAST.at(loss, 0, text, "keepdim=True", **others)


TORN_VIEW = Kind(
    "torn_view",
    "warning",
    "A view keeps the order of the numbers, so that samples, tokens or heads are mixed: take "
    "transpose or permute to exchange axes, and view or reshape to split and to join them",
)


def torn_views(evidence: Evidence) -> Iterator[Finding]:
    """The first view on the way to each loss by which axes are filled with each other."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.views[-1:]:  # nodes come from the loss back
            text = (
                f"on the way to {loss.quantity!r}, {one.source}, of shape {one.given}, is viewed "
                f"as {one.made}: the numbers of both axes are mixed"
            )
            yield TORN_VIEW.at(loss, 0, text, "a transpose", module=one.module)
        for one in graph.inputs[-1:]:
            text = (
                f"{one.module!r} is given a tensor of shape {one.given} that is viewed as "
                f"{one.made}: the numbers of its axes are mixed"
            )
            yield TORN_VIEW.at(loss, 0, text, "a transpose", module=one.module)
