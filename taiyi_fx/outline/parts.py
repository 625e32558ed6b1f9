"""Parts: the nested graphs that an outline is made from. Each level is a graph of its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import networkx as nx

from taiyi_fx.outline.items import Item


@dataclass(eq=False)
class Part:
    """An item of an outline that is still being made, with the graph of its own parts.

    Attributes:
        item: The item; its parent is not known yet.
        inside: Its own parts in order of execution, with the edges between them.
        node: The node in the drawing; only for a part without parts.
    """

    item: Item
    inside: nx.DiGraph = field(default_factory=nx.DiGraph)
    node: str = ""

    def walk(self) -> Iterator[Part]:
        """The part and all parts within it, outer ones first."""
        yield self
        for part in self.inside:
            yield from part.walk()


def grouped(inside: nx.DiGraph, members: Iterable[Part], item: Item) -> tuple[nx.DiGraph, Part]:
    """A level with some of its parts moved into a new part; and the new part.

    Args:
        inside: The level.
        members: Parts of it; no path from one to another leads through a part outside them, or
            the level would get a cycle.
        item: The item of the new part.
    """
    chosen = set(members)
    group = Part(item, selected(inside, chosen))
    made = nx.DiGraph()
    made.add_nodes_from(group if part in chosen else part for part in inside)
    for pair in inside.edges:
        source, target = (group if part in chosen else part for part in pair)
        if source is not target:
            made.add_edge(source, target)
    return in_order(made), group


def selected(inside: nx.DiGraph, chosen: Collection[Part]) -> nx.DiGraph:
    """The subgraph of some parts of a level, in its order."""
    made = nx.DiGraph()
    made.add_nodes_from(part for part in inside if part in chosen)
    made.add_edges_from((a, b) for a, b in inside.edges if a in chosen and b in chosen)
    return made


def in_order(graph: nx.DiGraph) -> nx.DiGraph:
    """The same graph with its nodes in topological order, otherwise as they were."""
    place = {node: number for number, node in enumerate(graph)}
    try:
        order = list(nx.lexicographical_topological_sort(graph, place.__getitem__))
    except nx.NetworkXUnfeasible:  # a followed forward whose parts take turns
        return graph
    made = nx.DiGraph()
    made.add_nodes_from((node, graph.nodes[node]) for node in order)
    made.add_edges_from(graph.edges(data=True))
    return made
