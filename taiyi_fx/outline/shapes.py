"""Shapes of the tensors on edges, as a run has shown them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import networkx as nx
from torch import fx

from taiyi_fx.passes.flow.contract import OUT, CallNode, JoinNode
from taiyi_fx.passes.flow.observer import Flow
from taiyi_fx.passes.flow.shapes import Shape, Shapes
from taiyi_fx.passes.runtime.build import Instrumented

GIVEN = "input "
"""The beginning of a note with the shapes that a call is given."""


class SeenShapes:
    """The shapes of the inputs and outputs of a model's modules and nodes.

    Args:
        compiled: The model, whose probes know the shapes of their readings.
        flow: The data flow that one run has shown; None without a run.
    """

    def __init__(self, compiled: Instrumented, flow: Flow | None) -> None:
        self._compiled = compiled
        self._flow = flow

    def of_call(self, name: str, call: int) -> Iterator[str]:
        """Lines with the input and output shapes of a call."""
        seen = None if self._flow is None else self._flow.shapes.get((name, call))
        sides = self._at_probes(name, call) if seen is None else vars(seen)
        for side, shapes in sides.items():
            if shapes:
                given = GIVEN if side == "inputs" else "output "
                yield given + ", ".join(map(as_text, shapes))

    def in_graph(self, part: str, call: int) -> Mapping[str, Shapes]:
        """The shapes at the nodes of a part's captured graph in a call, by node name."""
        drawn = self._compiled.capture.graphs[part][0].graph
        return {} if self._flow is None else self._flow.nodes.get((drawn, call), {})

    def followed(self, inside: nx.DiGraph, call: Any, source: Any, target: Any) -> str:
        """The shape on an edge of a followed forward; empty if it is not certain.

        It is that of the only input of the target, or else of the only output of the source:
        between the two, operations of one input are not seen and may have changed the shape.
        """
        handed, taken = self._seen_at(source, call)[1], self._seen_at(target, call)[0]
        if len(taken) == inside.in_degree(target) == 1:
            return as_text(taken[0])
        return as_text(handed[0]) if len(handed) == 1 else ""

    def _seen_at(self, node: Any, call: Any) -> tuple[Sequence[Shape], Sequence[Shape]]:
        """The shapes of the inputs and outputs of a node of the flow in a forward."""
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
    """The shapes on the edges into a node, by source; only of sources that made a single tensor.

    An in-place operation may have changed a shape since it was made. So the shapes count only if
    the node was in fact given inputs of all of them.
    """
    made = {s: seen[s.name].outputs for s in sources if s.name in seen}
    single = {source: shapes[0] for source, shapes in made.items() if len(shapes) == 1}
    expected = Counter(single[source] for source in sources if source in single)
    if node.name not in seen or not expected <= Counter(seen[node.name].inputs):
        return {}
    return {source: as_text(shape) for source, shape in single.items()}


def joined_shape(given: str, taken: str, is_only: bool) -> str:
    """The shape of an edge that is made of two, joined at a removed node; empty if not certain."""
    if not given:
        return taken if is_only else ""
    return given if taken in ("", given) else ""


def as_text(shape: Shape) -> str:
    """A shape as ``8×64``."""
    return "×".join("?" if size < 0 else str(size) for size in shape) or "scalar"
