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
TORN_EDGES = Kind(
    "torn_edges",
    "warning",
    "Make the two rows by torch.tensor(edges).t().contiguous(): a reshape to (2, -1) cuts the list "
    "of pairs in two halves",
)


def stray_messages(evidence: Evidence) -> Iterator[Finding]:
    """Layers that send messages among the first few rows, to where they come from, or at random."""
    for loss, graph in evidence.logged.graphs:
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
        torn = [one for one in graph.messages if one.is_torn]
        if torn:
            one = torn[-1]
            text = (
                f"on the way to {loss.quantity!r}, messages go between rows that are no pairs of a "
                "graph: put one behind the other, starts and ends are a list of pairs, with each "
                "edge back, or all one way, which was cut in two halves"
            )
            yield TORN_EDGES.at(loss, 0, text, "starts and ends of edges", module=one.module)
