"""The steps to an outline: draw the graphs, nest boxes in modules, group equal parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import networkx as nx
from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.outline.containers import with_containers
from taiyi_fx.outline.drawing import Drawing
from taiyi_fx.outline.items import MODULES, Edge, Item, Outline
from taiyi_fx.outline.parts import Part
from taiyi_fx.outline.plumbing import with_plumbing
from taiyi_fx.outline.ranges import with_ranges
from taiyi_fx.outline.repeats import collapse_repeats
from taiyi_fx.outline.sizes import without_sizes
from taiyi_fx.outline.tree import tree
from taiyi_fx.outline.unused import without_unused
from taiyi_fx.passes.flow.observer import Flow
from taiyi_fx.passes.runtime.build import Instrumented


def outline(
    compiled: Instrumented, subscriptions: Sequence[Subscription], flow: Flow | None
) -> Outline:
    """An instrumented model as boxes within boxes.

    Args:
        compiled: The model.
        subscriptions: The quantities read in it.
        flow: The data flow that a run has shown of forwards that stayed Python; None without a run.
    """
    drawing = Drawing(compiled, subscriptions, flow)
    drawing.draw()
    graph = without_unused(without_sizes(drawing.graph))
    model = tree(graph, drawing.clusters, drawing.model())
    drawn = {part.item.module: part for part in model.walk() if part.item.kind in MODULES}
    for item in drawing.uncalled(drawn):
        _home(item.module, drawn).inside.add_node(Part(item))
    _arrange(model, drawing.modules)
    return _flattened(model, graph)


class Outliner:
    """The outline of an instrumented model, rebuilt when a run has shown more of its data flow.

    Args:
        compiled: The model.
        subscriptions: The quantities read in it.
    """

    def __init__(self, compiled: Instrumented, subscriptions: Sequence[Subscription]) -> None:
        self._compiled = compiled
        self._subscriptions = subscriptions
        self._made: tuple[Flow | None, Outline] | None = None

    def __call__(self) -> Outline:
        """The outline: the same object until a run shows a new data flow."""
        flow = self._compiled.session.flow
        if self._made is None or self._made[0] is not flow:
            self._made = flow, outline(self._compiled, self._subscriptions, flow)
        return self._made[1]


def _home(module: str, drawn: Mapping[str, Part]) -> Part:
    """The innermost of the modules that a module lies in and that are drawn around their parts."""
    while module:
        module = module.rpartition(".")[0]
        if module in drawn and drawn[module].inside:
            return drawn[module]
    return drawn[""]


def _arrange(part: Part, modules: Mapping[str, nn.Module]) -> None:
    """Groups the parts of a part, and of every part within it, in place."""
    for inner in list(part.inside):
        _arrange(inner, modules)
    if not part.inside:
        return
    name = part.item.module
    name = name if name in modules else name.rpartition("@")[0]
    part.inside = with_plumbing(with_containers(part.inside, name, modules))
    for level in _levels(part):
        level.inside = with_ranges(collapse_repeats(level.inside))


def _levels(part: Part) -> Iterator[Part]:
    """A part and the containers directly in it, the inner ones first."""
    for inner in part.inside:
        if inner.item.kind == "container":
            yield from _levels(inner)
    yield part


def _flattened(model: Part, drawn: nx.DiGraph) -> Outline:
    items: list[Item] = []
    places: dict[str, int] = {}

    def add(part: Part, parent: int) -> None:
        place = len(items)
        is_told = part.item.kind in _RUNS or not any(
            inner.item.is_of_modules for inner in part.inside
        )
        family = part.item.family if is_told else ""
        items.append(dataclasses.replace(part.item, parent=parent, family=family))
        if part.node:
            places[part.node] = place
        for inner in part.inside:
            add(inner, place)

    add(model, -1)
    edges = (Edge(places[a], places[b], s or "") for a, b, s in drawn.edges(data="shape"))
    return Outline(tuple(items), tuple(edges))


_RUNS = ("fold", "rest")
