"""Shapes of what flows, as a run has shown them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import networkx as nx
from torch import fx

from taiyi_fx.passes.flow.contract import OUT, CallNode, JoinNode
from taiyi_fx.passes.flow.observer import Flow
from taiyi_fx.passes.flow.shapes import Shape, Shapes
from taiyi_fx.passes.runtime.compiler import Instrumented


class SeenShapes:
    """Tells shapes of what a model's parts were given and made.

    Args:
        compiled: The model, whose probes know the shapes of what they read.
        flow: What one run has shown; None if there was none.
    """

    def __init__(self, compiled: Instrumented, flow: Flow | None) -> None:
        self._compiled = compiled
        self._flow = flow

    def of_call(self, name: str, call: int) -> Iterator[str]:
        """What a call was given and what it made, as lines to tell."""
        seen = None if self._flow is None else self._flow.shapes.get((name, call))
        sides = self._at_probes(name, call) if seen is None else vars(seen)
        for side, shapes in sides.items():
            if shapes:
                yield f"{side.removesuffix('s')} {', '.join(map(as_text, shapes))}"

    def in_graph(self, part: str, call: int) -> Mapping[str, Shapes]:
        """What the nodes of the graph that is drawn for a part were given and made in a call."""
        drawn = self._compiled.capture.graphs[part][0].graph
        return {} if self._flow is None else self._flow.nodes.get((drawn, call), {})

    def followed(self, inside: nx.DiGraph, call: Any, source: Any, target: Any) -> str:
        """The shape of what one call hands to another, or else of all that the other was given.

        Between them, operations that only this value passed through may have changed it.
        """
        handed, taken = self._seen_at(source, call)[1], self._seen_at(target, call)[0]
        if len(handed) == 1:
            return as_text(handed[0])
        return as_text(taken[0]) if len(taken) == inside.in_degree(target) == 1 else ""

    def _seen_at(self, node: Any, call: Any) -> tuple[Sequence[Shape], Sequence[Shape]]:
        """What was given to a node of the flow in a call's forward, and what it handed on."""
        key = (node.module, node.call) if isinstance(node, CallNode) else call
        seen = None if self._flow is None else self._flow.shapes.get(key)
        if seen is None or isinstance(node, JoinNode):
            return (), ()
        if isinstance(node, CallNode):
            return seen.inputs, seen.outputs
        return (seen.outputs, ()) if node == OUT else ((), seen.inputs)

    def _at_probes(self, name: str, call: int) -> dict[str, Sequence[Shape]]:
        table = self._compiled.table
        if name not in table.plan:
            return {}
        found = {
            str(reading.site.port).removesuffix("_grad"): (tuple(slot.shape),)
            for reading, slot in table.at("train", name, call).items()
            if slot.shape is not None
        }
        return dict(sorted(found.items()))


def shapes_passed(
    seen: Mapping[str, Shapes], node: fx.Node, sources: list[fx.Node]
) -> dict[fx.Node, str]:
    """Of the sources of a node in a graph that made one tensor, its shape.

    In place, a shape may have changed since: they count while the node was given all of them.
    """
    made = {s: seen[s.name].outputs for s in sources if s.name in seen}
    single = {source: shapes[0] for source, shapes in made.items() if len(shapes) == 1}
    expected = Counter(single[source] for source in sources if source in single)
    if node.name not in seen or not expected <= Counter(seen[node.name].inputs):
        return {}
    return {source: as_text(shape) for source, shape in single.items()}


def joined_shape(given: str, taken: str, is_only: bool) -> str:
    """The shape of what passes a point: of what comes there, and of what is taken from there."""
    if not given:
        return taken if is_only else ""
    return given if taken in ("", given) else ""


def as_text(shape: Shape) -> str:
    """A shape as ``8×64``."""
    return "×".join("?" if size < 0 else str(size) for size in shape) or "scalar"
