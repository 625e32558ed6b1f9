"""Messages between the rows of a tensor, as between nodes of a graph, that go astray."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_USED = 0.25
"""The share of rows with messages below which the others were forgotten: a batch of eight graphs
whose edges all begin at its first node uses less."""

UNREACHED_ROWS = Kind(
    "unreached_rows",
    "warning",
    "Where several graphs are joined to one batch, add to the edges of each the number of nodes "
    "before it, as torch_geometric's Batch does",
)
RETURNED_MESSAGES = Kind(
    "returned_messages",
    "warning",
    "Take values at one end of the edges and add them up at the other: "
    "out.index_add_(0, target, x[source])",
)


def stray_messages(evidence: Evidence) -> Iterator[Finding]:
    """Layers that send messages among the first few rows alone, or to where they come from."""
    for loss, graph in evidence.graphs:
        few = [one for one in graph.messages if one.used < _USED * one.rows]
        if few and len(few) == len(graph.messages):
            one = few[-1]  # nodes come from the loss back
            text = (
                f"on the way to {loss.quantity!r}, messages go between the first {one.used} of "
                f"{one.rows} rows alone, as if all edges were of the first graph of the batch: "
                "the others are sent nothing"
            )
            yield UNREACHED_ROWS.at(loss, 0, text, "messages to rows of all the batch", module="")
        back = [one for one in graph.messages if one.comes_back]
        if back:
            one = back[-1]
            text = (
                f"on the way to {loss.quantity!r}, what is taken of rows by an index is added up "
                "by the same index: each row is sent what it has itself, and nothing of others"
            )
            yield RETURNED_MESSAGES.at(loss, 0, text, "two indices", module=one.module)
