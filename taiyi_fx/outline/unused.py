"""Values that are unpacked and never used, such as an LSTM's last states: left out."""

from __future__ import annotations

import networkx as nx

from taiyi_fx.outline.items import Item

_TAKING = frozenset("getitem chunk split unbind narrow select view reshape transpose".split())


def without_unused(graph: nx.DiGraph) -> nx.DiGraph:
    """A drawing without unpacking operations whose result nothing uses."""
    kept = graph.copy()
    waiting = list(graph)
    while waiting:
        node = waiting.pop()
        if node in kept and not kept.out_degree(node) and _takes(kept.nodes[node]["item"]):
            waiting.extend(kept.predecessors(node))
            kept.remove_node(node)
    return kept


def _takes(item: Item) -> bool:
    return item.kind == "op" and not item.marks and item.label in _TAKING
