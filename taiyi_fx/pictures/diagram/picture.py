"""The diagram of an instrumented model: to look at in a notebook, and to write to a file."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import networkx as nx
from torch import Tensor

from taiyi_fx.atomic_write import atomic_write
from taiyi_fx.instrumented import InstrumentedModule, instrumentation_of, monitor_of
from taiyi_fx.monitor import Monitor
from taiyi_fx.outline import Outline
from taiyi_fx.outline.build import outline
from taiyi_fx.outline.view import Depth, opened, shown
from taiyi_fx.passes.runtime.observe import observe
from taiyi_fx.pictures.diagram import engines, sketch
from taiyi_fx.pictures.diagram.dot import to_dot
from taiyi_fx.pictures.diagram.faces import Face, faces
from taiyi_fx.pictures.diagram.interactive import page
from taiyi_fx.pictures.diagram.latest import LatestValues, flagged, latest_values
from taiyi_fx.pictures.diagram.svg import enlarged, finished
from taiyi_fx.pictures.report.header import Graph
from taiyi_fx.quantities.health import to_stored

Direction = Literal["TB", "LR", "BT", "RL"]

_PICTURES = (".svg", ".png")


class Diagram:
    """Modules, operations and probes of an instrumented model, as boxes within boxes.

    Attributes:
        outline: The whole model, shown or not.
        view: The boxes, clusters and edges that are shown.
    """

    def __init__(
        self,
        graph: Graph,
        monitor: Monitor,
        latest: LatestValues | None,
    ) -> None:
        assert graph.outline is not None
        self.outline = graph.outline
        self.view = shown(graph.outline, graph.is_open, only_probed=graph.only_probed)
        self._graph = graph
        self._monitor = monitor
        self._latest = latest

    def to_networkx(self) -> nx.DiGraph:
        """The data flow between all boxes without parts, shown or not.

        Nodes are indices of the outline's items and have the item as attribute ``item``; edges
        have a ``shape``, which is empty if no run has shown it.
        """
        graph = nx.DiGraph()
        parts = self.outline.children()
        items = enumerate(self.outline.items)
        graph.add_nodes_from((i, {"item": item}) for i, item in items if not parts[i])
        graph.add_edges_from((a, b, {"shape": shape}) for a, b, shape in self.outline.edges)
        return graph

    def to_dot(self) -> str:
        """The view as DOT text; needs no Graphviz."""
        return to_dot(self.view, self._faces, self._graph.direction)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the diagram to a file, in the format that its suffix names.

        Pictures are laid out by Graphviz: the system's, or that of ``taiyi-fx[diagram]``. Without
        it, matplotlib draws a plainer picture, with a note that says so. A page needs neither: its
        boxes open and close in a browser, and it shows the records in memory as a report does.

        Args:
            path: A path that ends in ``.html``, ``.svg``, ``.png`` or ``.dot``.

        Raises:
            FileNotFoundError: The folder does not exist.
            ValueError: The suffix is not one of these.
            OSError: The file cannot be written, or is not a regular file; one that was there stays.
            EngineMissing: Neither Graphviz nor matplotlib is installed, and a picture needs one;
                the text says how to install it.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".dot", ".html", *_PICTURES):
            raise ValueError(f"{path.name!r} should end in .html, .svg, .png or .dot")
        with atomic_write(path) as part:
            part.write_bytes(self._as(suffix))
        return path

    def _as(self, suffix: str) -> bytes:
        if suffix == ".dot":
            return self.to_dot().encode()
        if suffix == ".html":
            return page(self._graph, self._monitor, values=self._latest is not None).encode()
        return self._picture(suffix[1:])

    def _picture(self, form: str) -> bytes:
        engine = engines.find_engine()
        if engine is None:
            return sketch.render(self.view, self._faces, self._graph.direction, form)
        if form == "svg":
            return finished(engines.render(engine, enlarged(self.to_dot()), form))
        return engines.render(engine, self.to_dot(), form)

    @functools.cached_property
    def _faces(self) -> dict[int, Face]:
        return faces(self.outline, self.view, self._latest or {})

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The picture for a notebook; DOT text without Graphviz and matplotlib."""
        try:
            picture = self._picture("svg").decode("utf-8")
        except engines.EngineMissing:
            return {"text/plain": self.to_dot()}
        return {"text/plain": repr(self), "image/svg+xml": picture}

    def __repr__(self) -> str:
        shown = self._faces.values()
        probed, edited = sum(f.is_probed for f in shown), sum("edits" in f.kinds for f in shown)
        more = f", {edited} with edits" if edited else ""
        return f"<diagram of {len(self.view.boxes)} boxes, {probed} with probes{more}>"


def diagram(
    instrumented: InstrumentedModule,
    depth: Depth = "auto",
    expand: Sequence[str] = (),
    *,
    only_probed: bool = False,
    direction: Direction = "TB",
    values: bool = True,
    example_inputs: Tensor | Sequence[Any] | Mapping[str, Any] | None = None,
) -> Diagram:
    """A diagram of an instrumented model: its modules, its data flow, its probes and their values.

    Modules are boxes around their parts, or closed, with the number of probes within. Identical
    blocks that follow each other are shown once, with a double border for the others. A module
    whose forward stayed Python has a dashed border. The data flow inside it, and all shapes, are
    those that a run has shown: the first forward that was read, or one made here on example
    inputs. Without a run, its parts are drawn without edges between them.

    Args:
        instrumented: The result of `taiyi_fx.instrument`.
        depth: The number of open levels of modules, 1 being those of the model itself; ``"auto"``
            opens as many as some 60 boxes allow, the outer ones first, and the modules around the
            first findings, or the first ones that are flagged; ``"full"`` opens all, repeated ones
            too.
        expand: Names of further modules to open, with all modules around them.
        only_probed: Leave out boxes without quantities and edits; edges are joined through them.
        direction: The direction of the data flow: ``"TB"`` (down), ``"LR"``, ``"BT"`` or ``"RL"``.
        values: True to show the latest values; waits for those that are still being computed.
        example_inputs: Inputs for one forward that shows data flow and shapes: a tensor, the
            positional arguments as a tuple or list, or keyword arguments as a dictionary. It runs
            on a copy: buffers and random states stay as they are.

    Raises:
        LookupError: There is no module of a name in ``expand``.
        TypeError: The first argument did not come from `taiyi_fx.instrument`; the depth is neither
            a number nor one of these words; or ``expand`` is one text.
        ValueError: The direction is not one of these, or the depth is negative.
    """
    if not isinstance(instrumented, InstrumentedModule):
        kind = type(instrumented).__name__
        raise TypeError(f"diagram takes what taiyi_fx.instrument returned, not a {kind}")
    if direction not in get_args(Direction):
        known = ", ".join(map(repr, get_args(Direction)))
        raise ValueError(f"direction is one of {known}, not {direction!r}")
    made = _outline(instrumented, example_inputs)
    monitor = monitor_of(instrumented)
    health = {
        s.label: to_stored(s.quantity.health, s.quantity.unit, undefined=s.quantity.undefined)
        for s in monitor.subscriptions
    }
    units = {s.label: s.quantity.unit for s in monitor.subscriptions}
    read = latest_values(made, monitor.records, health, units) if values else {}
    found = monitor.findings if values else []
    read = flagged(read, found)
    named = [one.module for one in found if one.severity != "note" and one.module]
    faults = (site.module for site in monitor.non_finite if not site.is_overflow)
    first = list(islice(faults, 1))
    urgent = named + first + [module for (module, _), one in read.items() if one.state == "alert"]
    graph = Graph(made, opened(made, depth, expand, urgent), only_probed, direction)
    return Diagram(graph, monitor, read if values else None)


def _outline(instrumented: InstrumentedModule, example: Any) -> Outline:
    """The outline as a run has shown it, or as one forward on the example shows it."""
    monitor = monitor_of(instrumented)
    if example is None:
        return monitor.outline
    compiled = instrumentation_of(instrumented).compiled
    model, given = compiled.root, _arguments(example)
    flow = observe(model, compiled.capture.python.keys(), *given, compiled.capture.graphs)
    return outline(compiled, monitor.subscriptions, flow)


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return tuple(example) if isinstance(example, (tuple, list)) else (example,), {}
