"""Views that exchange two sizes, where a transpose was meant."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

TORN_VIEW = Kind(
    "torn_view",
    "warning",
    "A view keeps the order of the numbers, so that samples, tokens or heads are mixed: take "
    "transpose or permute to exchange axes, and view or reshape to split and to join them",
)


def torn_views(evidence: Evidence) -> Iterator[Finding]:
    """The first view on the way to each loss by which two axes are filled with each other."""
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        for one in graph.views[-1:] if graph else ():  # nodes come from the loss back
            of = f"what {one.module!r} makes" if one.module else "a tensor"
            text = (
                f"on the way to {loss.quantity!r}, {of}, of shape {one.given}, is viewed as "
                f"{one.made}: the numbers of both axes are mixed"
            )
            yield TORN_VIEW.at(loss, 0, text, "a transpose", module=one.module)
