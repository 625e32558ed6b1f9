"""Arithmetic of sizes: integers, not tensors, and so left out of a picture."""

from __future__ import annotations

import networkx as nx

from taiyi_fx.outline.items import Item

_SIZES = frozenset("size shape dim ndim numel len dtype device is_floating_point".split())
_OF_SIZES = frozenset("getitem add sub mul floordiv truediv mod neg pow int float max min".split())


def without_sizes(graph: nx.DiGraph) -> nx.DiGraph:
    """A drawing without reads of sizes, and without operations on sizes alone."""
    sizes: set[str] = set()
    for node in nx.topological_sort(graph) if nx.is_directed_acyclic_graph(graph) else ():
        before = set(graph.predecessors(node))
        item: Item = graph.nodes[node]["item"]
        if item.kind == "op" and not item.marks and _is_size(item, bool(before), before <= sizes):
            sizes.add(node)
    kept = graph.copy()
    kept.remove_nodes_from(sizes)
    return kept


def _is_size(item: Item, is_fed: bool, is_of_sizes: bool) -> bool:
    return item.label in _SIZES or (item.label in _OF_SIZES and is_fed and is_of_sizes)
