"""Where the probes stand: an instrumented model as a graph of modules, to look at and to export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
from torch import Tensor

from taiyi_fx import dot
from taiyi_fx.boxes import Box, boxes
from taiyi_fx.drawing import Drawing
from taiyi_fx.instrument import InstrumentedModule
from taiyi_fx.passes.observe import observe


class Diagram:
    """Modules, operations and probes of an instrumented model.

    Attributes:
        clusters: Modules that are drawn around their parts: by scope, their box.
    """

    def __init__(self, graph: nx.DiGraph, clusters: Mapping[tuple[str, ...], Box]) -> None:
        self._graph = graph
        self.clusters = dict(clusters)

    def to_networkx(self) -> nx.DiGraph:
        """A directed graph; each node has a `Box` as its attribute ``box``.

        Each edge has as its attribute ``shape`` the shape of what the source hands over, such as
        ``"8×64×192"`` or ``"scalar"``; empty where that is several tensors, or no run has shown it.
        """
        return self._graph.copy()

    def to_dot(self) -> str:
        """The diagram in Graphviz's language; needs no Graphviz."""
        return dot.build(self._graph, self.clusters).to_string()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the diagram to a file, in the format that its suffix names.

        Args:
            path: A path that ends in ``.dot``, ``.svg`` or ``.png``.

        Raises:
            ValueError: The suffix is none of these.
            dot.EngineMissing: For pictures: there is no Graphviz; says what to install.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".dot", ".svg", ".png"):
            raise ValueError(f"{path.name!r} should end in .dot, .svg or .png")
        if suffix == ".dot":
            path.write_text(self.to_dot(), encoding="utf-8")
        else:
            path.write_bytes(dot.render(self.to_dot(), suffix[1:]))
        return path

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What a notebook shows: a picture, or without a Graphviz its source."""
        if dot.find_engine() is None:
            return {"text/plain": self.to_dot()}
        picture = dot.render(self.to_dot(), "svg").decode("utf-8")
        return {"text/plain": repr(self), "image/svg+xml": picture}

    def __repr__(self) -> str:
        marked = [box.marks for _, box in boxes(self._graph)]
        probed, edited = sum(m.has_readings for m in marked), sum(bool(m.edits) for m in marked)
        more = f", {edited} with edits" if edited else ""
        return f"<diagram of {len(self._graph)} boxes, {probed} with probes{more}>"


def diagram(
    instrumented: InstrumentedModule,
    *,
    example_inputs: Tensor | Sequence[Any] | Mapping[str, Any] | None = None,
) -> Diagram:
    """A diagram of an instrumented model: its modules, its data flow and its probes.

    A module whose forward stayed Python has a dashed border. The data flow inside it and the shapes
    on all edges are those that a run has shown: the first forward that was probed, or one made here
    on example inputs. Without a run, its parts are drawn with no edges between them.

    Args:
        instrumented: What `taiyi_fx.instrument` returned.
        example_inputs: Inputs for one forward that shows data flow and shapes: a tensor, the
            positional arguments as a tuple or list, or keyword arguments as a dictionary. It runs
            on a copy: buffers and random states stay as they are.

    Raises:
        TypeError: The first argument did not come from `taiyi_fx.instrument`.
    """
    if not isinstance(instrumented, InstrumentedModule):
        kind = type(instrumented).__name__
        raise TypeError(f"diagram takes what taiyi_fx.instrument returned, not a {kind}")
    installation = instrumented._instrumented.compiled.installation
    flow = installation.root_dispatcher.flow
    if example_inputs is not None:
        capture = instrumented.capture
        given = _arguments(example_inputs)
        flow = observe(installation.plain(), capture.python.keys(), *given, capture.graphs)
    drawing = Drawing(instrumented, flow)
    drawing.draw()
    return Diagram(drawing.graph, drawing.clusters)


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return tuple(example) if isinstance(example, (tuple, list)) else (example,), {}
