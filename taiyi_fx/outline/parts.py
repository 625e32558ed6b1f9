"""Parts of an outline while it is made: what stands side by side, and who feeds whom there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import networkx as nx

from taiyi_fx.outline.items import Item


@dataclass(eq=False)
class Part:
    """An item under way.

    Attributes:
        item: What it will be; its parent is not known yet.
        inside: Its own parts in order of execution, with who feeds whom of them.
        node: Of a part without parts, its node in the drawing.
    """

    item: Item
    inside: nx.DiGraph = field(default_factory=nx.DiGraph)
    node: str = ""

    def walk(self) -> Iterator[Part]:
        """The part, and all within it."""
        yield self
        for part in self.inside:
            yield from part.walk()


def grouped(inside: nx.DiGraph, members: Iterable[Part], item: Item) -> tuple[nx.DiGraph, Part]:
    """A level with some of its parts put into a new one, and that one.

    Args:
        inside: The level.
        members: Parts of it, with no way from one to another through a part that is not theirs.
        item: What the new part is.
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
    """Some parts of a level, in its order, with the edges between them."""
    made = nx.DiGraph()
    made.add_nodes_from(part for part in inside if part in chosen)
    made.add_edges_from((a, b) for a, b in inside.edges if a in chosen and b in chosen)
    return made


def in_order(graph: nx.DiGraph) -> nx.DiGraph:
    """The same graph with its nodes in an order of execution that keeps theirs where it can."""
    place = {node: number for number, node in enumerate(graph)}
    try:
        order = list(nx.lexicographical_topological_sort(graph, place.__getitem__))
    except nx.NetworkXUnfeasible:  # a followed forward whose parts take turns
        return graph
    made = nx.DiGraph()
    made.add_nodes_from((node, graph.nodes[node]) for node in order)
    made.add_edges_from(graph.edges(data=True))
    return made
