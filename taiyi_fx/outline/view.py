"""Views of an outline: the items that are open, and the boxes and edges that are then visible."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import networkx as nx

from taiyi_fx.outline.items import Edge, Outline
from taiyi_fx.suggestion import suggestion

Depth = int | Literal["auto", "full"]

_BOXES = 60
"""The number of boxes that ``"auto"`` stays within, beside those asked for."""

_SMALL = 30
"""The most boxes of a model that is shown whole, identical blocks too."""

_URGENT = 3
"""The number of flagged modules that ``"auto"`` makes visible."""

_LEVELS = ("module", "container", "python")
"""The kinds of items that ``depth`` counts."""


class View(NamedTuple):
    """The visible part of an outline.

    Attributes:
        boxes: Items drawn as one box, in order of execution.
        clusters: Items drawn around their parts, the outer ones first.
        edges: The data flow between boxes; a shape is empty where several values differ in it.
        homes: For each box and cluster, the cluster around it; -1 for none.
    """

    boxes: tuple[int, ...]
    clusters: tuple[int, ...]
    edges: tuple[Edge, ...]
    homes: dict[int, int]

    def crosses(self, edge: Edge) -> bool:
        """True if an edge leaves or enters a cluster."""
        return self.homes[edge.source] != self.homes[edge.target]


def opened(
    outline: Outline,
    depth: Depth = "auto",
    expand: Sequence[str] = (),
    urgent: Sequence[str] = (),
) -> frozenset[int]:
    """The indices of the items that are open.

    Args:
        outline: The model.
        depth: The number of open levels of modules; ``"auto"`` opens as many items as some 60
            boxes allow, the outer ones first, and of identical blocks the first, but none whose
            class says what it computes, as a norm of one's own; ``"full"`` opens all, folded ones
            too.
        expand: Names of further modules to open, with all modules around them.
        urgent: Names, with their calls, of flagged modules, the most urgent first: ``"auto"`` opens
            the modules around three of them, unless that shows more than 120 boxes.

    Raises:
        LookupError: There is no module of a name in ``expand``.
        TypeError: The depth is neither a number nor one of these words, or expand is one text.
        ValueError: The depth is negative.
    """
    children = outline.children()
    asked = _asked(outline, expand)
    if depth == "auto":
        asked |= _around(outline, children, urgent)
        return frozenset(_afford(outline, children, asked))
    parents = {i for i, inner in enumerate(children) if inner}
    if depth == "full":
        return frozenset(parents)
    if isinstance(depth, bool) or not isinstance(depth, int):
        raise TypeError(f"depth is a number of levels, 'auto' or 'full', not {depth!r}")
    if depth < 0:
        raise ValueError(f"depth is 0 or more, not {depth}")
    deep = _depths(outline)
    kinds = (*_LEVELS, "fold")
    at = {i for i in parents if deep[i] < max(depth, 1) and outline.items[i].kind in kinds}
    return frozenset({0} | at | asked)


def shown(outline: Outline, is_open: Collection[int], *, only_probed: bool = False) -> View:
    """The view of an outline with some items open.

    Args:
        outline: The model.
        is_open: The indices of the items that are open.
        only_probed: Leave out boxes without quantities and edits; edges are joined through them.
    """
    children = outline.children()
    marked = marked_items(outline)
    if only_probed:  # a cluster around nothing is not drawn, nor are its own marks
        is_open = {i for i in is_open if marked[i] > bool(outline.items[i].marks)}
    place: list[int] = []  # of each item what it is shown as
    homes: dict[int, int] = {}
    for i, item in enumerate(outline.items):
        above = item.parent
        is_hidden = above >= 0 and not (above in is_open and place[above] == above)
        place.append(place[above] if is_hidden else i)
        if not is_hidden:
            homes[i] = _home(outline, above)
    clusters = [i for i in homes if children[i] and i in is_open]
    boxes = [i for i in homes if not (children[i] and i in is_open)]
    edges = _merged(Edge(place[a], place[b], shape) for a, b, shape in outline.edges)
    if only_probed:
        boxes, edges = _without(boxes, edges, [i for i in boxes if not marked[i]])
    drawn = [i for i in clusters if _is_drawn(outline, i)]
    kept = {i: homes[i] for i in (*boxes, *drawn)}
    return View(tuple(boxes), tuple(drawn), tuple(edges), kept)


def marked_items(outline: Outline) -> list[int]:
    """For each item, the number of marked boxes within it, itself included."""
    counts = [bool(item.marks) + 0 for item in outline.items]
    for i in reversed(range(1, len(counts))):
        counts[outline.items[i].parent] += counts[i]
    return counts


def _home(outline: Outline, above: int) -> int:
    """The nearest item, from this one outwards, that is drawn as a cluster; -1 for none."""
    while above >= 0 and not _is_drawn(outline, above):
        above = outline.items[above].parent
    return above


def _is_drawn(outline: Outline, i: int) -> bool:
    """True if an open item is drawn as a cluster: not a fold, nor the model without marks."""
    item = outline.items[i]
    return item.kind != "fold" and (i > 0 or bool(item.marks))


def _merged(edges: Iterator[Edge]) -> list[Edge]:
    shapes: dict[tuple[int, int], dict[str, None]] = {}
    for source, target, shape in edges:
        if source != target:
            shapes.setdefault((source, target), {})[shape] = None
    return [Edge(*ends, next(iter(s)) if len(s) == 1 else "") for ends, s in shapes.items()]


def _without(
    boxes: list[int], edges: list[Edge], hidden: list[int]
) -> tuple[list[int], list[Edge]]:
    """Boxes and edges without the hidden boxes; edges through these are joined."""
    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((a, b, {"shape": shape}) for a, b, shape in edges)
    for i in hidden:
        before, after = list(graph.predecessors(i)), list(graph.successors(i))
        graph.add_edges_from((a, b) for a in before for b in after if a != b)
        graph.remove_node(i)
    return list(graph), [Edge(a, b, s or "") for a, b, s in graph.edges(data="shape")]


def _depths(outline: Outline) -> list[int]:
    """For each item, the number of modules around it."""
    found: list[int] = []
    for item in outline.items:
        above = item.parent
        counts = above >= 0 and outline.items[above].kind in _LEVELS
        found.append((found[above] if above >= 0 else 0) + counts)
    return found


def _around(outline: Outline, children: list[list[int]], names: Sequence[str]) -> set[int]:
    """The items around the first few of some modules, those without parts first."""
    known = _places(outline)
    places = [known[name] for name in dict.fromkeys(names) if known.get(name)]
    found: set[int] = set()
    for i in sorted(places, key=lambda i: bool(children[i]))[:_URGENT]:
        way = found | _way(outline, outline.items[i].parent)
        if _boxes(children, {0} | way) <= 2 * _BOXES:
            found = way
    return found


def _places(outline: Outline) -> dict[str, int]:
    """The outermost item of each module's name, and of the empty name."""
    return {item.module: i for i, item in reversed(list(enumerate(outline.items)))}


def _way(outline: Outline, i: int) -> set[int]:
    """An item and all items around it."""
    found: set[int] = set()
    while i >= 0:
        found.add(i)
        i = outline.items[i].parent
    return found


def _asked(outline: Outline, expand: Sequence[str]) -> set[int]:
    if isinstance(expand, str):
        raise TypeError(f"expand is a list of modules' names, as [{expand!r}]")
    places = _places(outline)
    found: set[int] = set()
    for name in expand:
        if name not in places:
            hint = suggestion(name, sorted(filter(None, places)))
            raise LookupError(f"no module {name!r} to expand.{hint}")
        found |= _way(outline, places[name])
    return found


def _afford(outline: Outline, children: list[list[int]], asked: set[int]) -> set[int]:
    """The items that ``"auto"`` opens: level by level while there is room, of equals all or one."""
    parents = {i for i, inner in enumerate(children) if inner}
    modules = {i for i in parents if outline.items[i].kind != "plumbing"}
    modules = {i for i in modules if not _is_of_a_kind(outline, children, i)} | asked
    if _boxes(children, modules) <= _SMALL:
        return modules
    is_open: set[int] = set()
    deep = _depths(outline)
    repeated = _repeated(outline)
    waiting: dict[int, float] = {}

    def add(chosen: Collection[int]) -> None:
        is_open.update(chosen)
        first = [i for i in chosen if not repeated[i]]
        for i in itertools.chain.from_iterable(children[parent] for parent in first):
            kind = outline.items[i].kind
            if i in modules and i not in is_open and not repeated[i]:
                # The content of a fold is like that of the item beside it.
                waiting[i] = deep[i] + 1.5 * (kind == "fold")

    add({0} | asked)
    while waiting:
        lowest = min(waiting.values())
        level = [i for i in sorted(waiting) if waiting[i] == lowest]
        for i in level:
            del waiting[i]
        for alike in _alike(outline, children, level):
            for chosen in (alike, alike[:1]):
                if _boxes(children, is_open.union(chosen)) <= _BOXES:
                    add(chosen)
                    break
    return is_open


def _is_of_a_kind(outline: Outline, children: list[list[int]], i: int) -> bool:
    """True for a module whose class says what the operations in it compute, as of a norm."""
    inner = [outline.items[part] for part in children[i]]
    return bool(outline.items[i].family) and not any(x.marks or x.is_of_modules for x in inner)


def _repeated(outline: Outline) -> list[bool]:
    """For each item, True if it is or stands in a rest or a range: its like is shown already."""
    found: list[bool] = []
    for item in outline.items:
        above = item.parent >= 0 and found[item.parent]
        found.append(above or item.kind in ("rest", "range"))
    return found


def _alike(
    outline: Outline, children: list[list[int]], level: Sequence[int]
) -> Iterator[list[int]]:
    """Items in groups of equal ones: opening only some of a group would look like a difference."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for i in level:
        item = outline.items[i]
        found.setdefault((item.kind, item.class_name, len(children[i])), []).append(i)
    yield from found.values()


def _boxes(children: list[list[int]], is_open: set[int]) -> int:
    return 1 + sum(len(children[i]) - 1 for i in is_open)
