"""Places for boxes if there is no Graphviz: a layered layout within each cluster.

Graphviz cannot be assumed: it is a program of the system, and the package that brings it has
wheels for some platforms only. matplotlib draws, but places nothing, and the layouts of networkx
know neither clusters nor the sizes of boxes. So this file has the usual three steps of a layered
layout (Sugiyama, Tagawa and Toda 1981, doi:10.1109/TSMC.1981.4308636), in their simplest form:

1. `_layers`: a box goes into the layer after the last one that feeds it. An edge over several
   layers gets a bend in each layer between, so that the next steps keep room for it.
2. `_sort`: each layer is ordered by the mean place of what its boxes are joined to, down and up in
   turns. This barycentre rule leaves few crossings.
3. `_spread`: boxes move to the mean of what they are joined to, as far as their neighbours allow.

Clusters are laid out from the inside out, and each is one box to the level around it: that is why
nothing overlaps. An edge between boxes of different clusters is split at the borders by
`_Levels._lead`; -1 stands for its end outside. Everything is computed as if data flowed down, and
turned at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import networkx as nx

from taiyi_fx.outline.view import View

Size = tuple[float, float]
Point = tuple[float, float]

_GAP_ACROSS, _GAP_ALONG = 18.0, 28.0
_PAD = 10.0
_SWEEPS = 6


class Rectangle(NamedTuple):
    """The place and size of a box; y goes down."""

    x: float
    y: float
    width: float
    height: float


class Layout(NamedTuple):
    """The places of all boxes and the ways of all edges.

    Attributes:
        places: The rectangle of each box and cluster.
        ways: The points of each edge between its two boxes, by source and target.
        size: Width and height of the whole.
    """

    places: dict[int, Rectangle]
    ways: dict[tuple[int, int], list[Point]]
    size: Size


class Frame(NamedTuple):
    """The margins of a cluster around its parts: before and after, across and along the flow."""

    across: tuple[float, float]
    along: tuple[float, float]


class _Bend(NamedTuple):
    """The place where an edge passes a layer between those of its ends."""

    source: int
    target: int
    layer: int


_Node: TypeAlias = "int | _Bend"


@dataclass
class _Level:
    """The layout within one cluster: of boxes, and of clusters that are laid out already.

    Attributes:
        size: The extent across and along the flow.
        middles: The centre of each part.
        bends: For each bend, where its edge enters the layer and where it leaves it.
    """

    size: Size = (0.0, 0.0)
    middles: dict[int, Point] = field(default_factory=dict)
    bends: dict[_Bend, tuple[Point, Point]] = field(default_factory=dict)


def layout(view: View, sizes: Mapping[int, Size], direction: str) -> Layout:
    """Places for boxes and clusters, none of which overlap, and ways for edges.

    Args:
        view: The boxes, clusters and edges.
        sizes: Width and height of each box, and of each cluster's title, which is on top.
        direction: The direction of the data flow: ``"TB"``, ``"LR"``, ``"BT"`` or ``"RL"``.
    """
    is_level = direction in ("LR", "RL")
    turned = {i: (h, w) if is_level else (w, h) for i, (w, h) in sizes.items()}
    frames = {i: _frame(direction, sizes[i][1]) for i in view.clusters}
    levels = _Levels(view, turned, frames)
    whole = levels.arranged(-1)
    found: dict[int, Rectangle] = {}
    ways = {edge[:2]: [] for edge in view.edges}
    levels.place(-1, (0.0, 0.0), found, ways)
    turn = _turn(direction, whole.size[1])
    return Layout(
        {i: _turned(rectangle, turn) for i, rectangle in found.items()},
        {ends: [turn(point) for point in _in_turn(points)] for ends, points in ways.items()},
        (whole.size[1], whole.size[0]) if is_level else whole.size,
    )


def _frame(direction: str, title: float) -> Frame:
    if direction in ("LR", "RL"):
        return Frame((title, _PAD), (_PAD, _PAD))
    return Frame((_PAD, _PAD), (title, _PAD) if direction == "TB" else (_PAD, title))


def _in_turn(points: list[Point]) -> list[Point]:
    """The points of a way in order along the flow."""
    return sorted(points, key=lambda point: point[1])


def _turn(direction: str, length: float) -> Callable[[Point], Point]:
    """A function from coordinates across and along the flow to coordinates on paper."""
    turns: dict[str, Callable[[Point], Point]] = {
        "TB": lambda p: p,
        "BT": lambda p: (p[0], length - p[1]),
        "LR": lambda p: (p[1], p[0]),
        "RL": lambda p: (length - p[1], p[0]),
    }
    return turns[direction]


def _turned(at: Rectangle, turn: Callable[[Point], Point]) -> Rectangle:
    corners = turn((at.x, at.y)), turn((at.x + at.width, at.y + at.height))
    (x0, x1), (y0, y1) = (sorted(values) for values in zip(*corners, strict=True))
    return Rectangle(x0, y0, x1 - x0, y1 - y0)


class _Levels:
    """The layouts within all clusters, made from the inside out.

    Attributes:
        graphs: For each cluster, the graph of its parts; -1 is the whole.
        ways: For each cluster, the edges that pass it, by the parts they join in it; -1 in place of
            a part outside.
    """

    def __init__(self, view: View, sizes: Mapping[int, Size], frames: Mapping[int, Frame]) -> None:
        self.view = view
        self.sizes = dict(sizes)
        self.frames = frames
        self.levels: dict[int, _Level] = {}
        self.graphs = {i: nx.DiGraph() for i in (-1, *view.clusters)}
        self.ways: dict[int, dict[tuple[int, int], list[tuple[int, int]]]] = {
            i: {} for i in self.graphs
        }
        for i in sorted((*view.clusters, *view.boxes)):
            self.graphs[view.homes[i]].add_node(i)
        for source, target, _ in view.edges:
            self._lead(source, target)

    def _lead(self, source: int, target: int) -> None:
        """Splits an edge at the borders of clusters: out of some, across, and into others."""
        ends = (source, target)
        out, into = self._way(source), self._way(target)
        shared = sum(a == b for a, b in zip(out, into, strict=False))
        home, across = out[shared][0], (out[shared][1], into[shared][1])
        self.graphs[home].add_edge(*across)
        self.ways[home].setdefault(across, []).append(ends)
        for inner, part in out[shared + 1 :]:
            self.ways[inner].setdefault((part, -1), []).append(ends)
        for inner, part in into[shared + 1 :]:
            self.ways[inner].setdefault((-1, part), []).append(ends)

    def _way(self, i: int) -> list[tuple[int, int]]:
        """Pairs of a cluster and its part with the item, from the outermost cluster inwards."""
        way: list[tuple[int, int]] = []
        while i >= 0:
            way.append((self.view.homes[i], i))
            i = self.view.homes[i]
        return way[::-1]

    def arranged(self, home: int) -> _Level:
        """The layout within a cluster; inner clusters are laid out first."""
        for i in self.graphs[home]:
            if i in self.graphs:
                (a0, a1), (l0, l1) = self.frames[i]
                (across, along), title = self.arranged(i).size, self.sizes[i]
                self.sizes[i] = (max(across + a0 + a1, title[0]), max(along + l0 + l1, title[1]))
        layers, graph = _layers(self.graphs[home], self.ways[home])
        _sort(layers, graph)
        self.levels[home] = _spread(layers, graph, self.sizes)
        return self.levels[home]

    def place(
        self,
        home: int,
        corner: Point,
        found: dict[int, Rectangle],
        ways: dict[tuple[int, int], list[Point]],
    ) -> None:
        """Adds the places of all within a cluster, given its corner."""
        level = self.levels[home]
        for i in self.graphs[home]:
            (x, y), (width, height) = level.middles[i], self.sizes[i]
            at = Rectangle(corner[0] + x - width / 2, corner[1] + y - height / 2, width, height)
            found[i] = at
            if i in self.graphs:
                frame = self.frames[i]
                inner = (at.x + frame.across[0], at.y + frame.along[0])
                self.place(i, inner, found, ways)
        for bend, points in level.bends.items():
            for ends in self.ways[home][bend.source, bend.target]:
                ways[ends] += ((corner[0] + x, corner[1] + y) for x, y in points)


def _layers(
    graph: nx.DiGraph, ways: Collection[tuple[int, int]]
) -> tuple[list[list[_Node]], nx.DiGraph]:
    """Parts and bends in layers, and the graph of them: its edges go to the next layer only."""
    forward = graph.copy()
    if not nx.is_directed_acyclic_graph(forward):
        forward.remove_edges_from([(a, b) for a, b in graph.edges if a > b])
    layers: list[list[_Node]] = [sorted(layer) for layer in nx.topological_generations(forward)]
    depth = {node: number for number, layer in enumerate(layers) for node in layer}
    joined = nx.DiGraph()
    joined.add_nodes_from(depth)
    for a, b in ways:
        passed = range(depth.get(a, -1) + 1, depth.get(b, len(layers)))
        bends = [_Bend(a, b, layer) for layer in passed]
        for bend in bends:
            layers[bend.layer].append(bend)
        if a < 0 or b < 0 or depth[a] < depth[b]:
            nx.add_path(joined, [node for node in (a, *bends, b) if node != -1])
    return layers, joined


def _sort(layers: list[list[_Node]], graph: nx.DiGraph) -> None:
    """Orders each layer by the mean place of the neighbours in the layer before, down and up."""
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        near = graph.predecessors if is_down else graph.successors
        for above, layer in itertools.pairwise(layers if is_down else layers[::-1]):
            place = {node: number / len(above) for number, node in enumerate(above)}
            own = {node: number / len(layer) for number, node in enumerate(layer)}
            wanted = {node: _mean([place[n] for n in near(node)], own[node]) for node in layer}
            layer.sort(key=wanted.__getitem__)


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(
    layers: Sequence[Sequence[_Node]], graph: nx.DiGraph, sizes: Mapping[int, Size]
) -> _Level:
    """Coordinates for ordered layers: each part near the mean of its neighbours."""
    widths = {node: _size(node, sizes)[0] for layer in layers for node in layer}
    across: dict[_Node, float] = {}
    for layer in layers:
        _line_up(layer, dict.fromkeys(layer, 0.0), widths, across)
    for sweep in range(_SWEEPS):
        near = graph.predecessors if sweep % 2 == 0 else graph.successors
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {n: _mean([across[m] for m in near(n)], across[n]) for n in layer}
            _line_up(layer, wanted, widths, across)
    start = min((across[n] - widths[n] / 2 for n in across), default=0.0)
    end = max((across[n] + widths[n] / 2 for n in across), default=0.0)
    along = 0.0
    level = _Level()
    for layer in layers:
        height = max(_size(node, sizes)[1] for node in layer)
        for node in layer:
            x = across[node] - start
            if isinstance(node, _Bend):
                level.bends[node] = ((x, along), (x, along + height))
            else:
                level.middles[node] = (x, along + height / 2)
        along += height + _GAP_ALONG
    level.size = (end - start, max(0.0, along - _GAP_ALONG))
    return level


def _line_up(
    layer: Sequence[_Node],
    wanted: Mapping[_Node, float],
    widths: Mapping[_Node, float],
    across: dict[_Node, float],
) -> None:
    """Puts the parts of a layer as near to the wanted places as their widths allow."""
    free = float("-inf")
    for node in layer:
        across[node] = max(wanted[node], free + widths[node] / 2)
        free = across[node] + widths[node] / 2 + _GAP_ACROSS
    off = _mean([wanted[node] - across[node] for node in layer], 0.0)
    for node in layer:
        across[node] += off


def _size(node: _Node, sizes: Mapping[int, Size]) -> Size:
    return (6.0, 0.0) if isinstance(node, _Bend) else sizes[node]
