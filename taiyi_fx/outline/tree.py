"""The flat drawing as a tree: each box is put into the modules that it stands in."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from taiyi_fx.outline.items import Item
from taiyi_fx.outline.parts import Part, in_order

Scope = tuple[str, ...]


def tree(graph: nx.DiGraph, clusters: Mapping[Scope, Item], model: Item) -> Part:
    """The part of the model, with all other parts inside.

    Args:
        graph: Nodes with an ``item`` and the ``scope`` that it stands in.
        clusters: The item of each scope.
        model: The item of the model itself.
    """
    parts = {(): Part(model)}
    homes: dict[str, tuple[Part, ...]] = {}
    for node, about in in_order(graph).nodes(data=True):
        leaf = Part(about["item"], node=node)
        homes[node] = (*_way(about["scope"], clusters, parts), leaf)
        homes[node][-2].inside.add_node(leaf)
    for scope, item in clusters.items():
        if item.marks and scope not in parts:  # nothing happens inside of it
            _way(scope[:-1], clusters, parts)[-1].inside.add_node(Part(item))
    for source, target in graph.edges:
        _join(homes[source], homes[target])
    for part in parts.values():
        part.inside = in_order(part.inside)
    return parts[()]


def _way(
    scope: Scope, clusters: Mapping[Scope, Item], parts: dict[Scope, Part]
) -> tuple[Part, ...]:
    """The parts from the model down to a scope; missing ones are created."""
    way = [parts[()]]
    for end in range(1, len(scope) + 1):
        inner = scope[:end]
        if inner not in parts:
            parts[inner] = Part(clusters[inner])
            way[-1].inside.add_node(parts[inner])
        way.append(parts[inner])
    return tuple(way)


def _join(source: tuple[Part, ...], target: tuple[Part, ...]) -> None:
    """Adds an edge on the level where the paths to two boxes part."""
    for above, a, b in zip(source, source[1:], target[1:], strict=False):
        if a is not b:
            above.inside.add_edge(a, b)
            return
