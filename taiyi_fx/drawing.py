"""An instrumented model as boxes and edges: its graphs, and what stayed Python between them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

import networkx as nx
from torch import fx, nn

from taiyi_fx.boxes import Box, Kind, Marks, boxes
from taiyi_fx.config import Subscription
from taiyi_fx.instrument import InstrumentedModule
from taiyi_fx.passes.contract import IN, OUT, CallNode, JoinNode
from taiyi_fx.passes.edited import is_edit
from taiyi_fx.passes.flow import Flow
from taiyi_fx.passes.insert_probes import is_probe
from taiyi_fx.passes.ir import GRADIENT_PORTS, VALUE_PORTS, Change
from taiyi_fx.passes.marks import pack, unpack
from taiyi_fx.passes.shapes import Shape, Shapes

Ends = tuple[str, str]
"""The nodes of the drawing that edges into something and out of it go to and come from."""


class Drawing:
    """Makes the boxes and edges of a diagram.

    Attributes:
        graph: The boxes and edges.
        clusters: Modules that are drawn around their parts: by scope, their box.
    """

    def __init__(self, instrumented: InstrumentedModule, flow: Flow | None) -> None:
        self.made = instrumented._instrumented
        self.flow = flow
        self.root = self.made.compiled.root
        self.modules = dict(self.root.named_modules())
        self.graph = nx.DiGraph()
        self.clusters: dict[tuple[str, ...], Box] = {}
        self.calls: Counter[str] = Counter()
        self.numbers = itertools.count()

    def draw(self) -> None:
        """Draws all of the model."""
        if "" in self.made.compiled.parts:
            self._draw_graph("", 0, ())
        else:
            self._draw_python("", 0, ())
        self._join_through()

    def _draw_graph(self, part: str, call: int, scope: tuple[str, ...]) -> Ends:
        """Draws the graph that stands in for a part; returns where edges begin and end."""
        entry, leaving = self._ends(part)
        seen = self._seen_in_graph(part, call)
        ids: dict[fx.Node, str] = {}
        for node in self.made.compiled.parts[part].nodes:
            if _is_ours(node) or _is_unused_input(node):
                continue
            ends = self._draw_node(node, part, scope, (entry, leaving))
            sources = list(_sources((node.args, node.kwargs)))
            shapes = _shapes_passed(seen, node, sources)
            for source in dict.fromkeys(sources):
                self._connect(ids[source], ends[0], shapes.get(source, ""))
            ids[node] = ends[1]
        return entry, leaving

    def _draw_node(self, node: fx.Node, part: str, scope: tuple[str, ...], ends: Ends) -> Ends:
        if part and node.op in ("placeholder", "output"):
            end = ends[node.op == "output"]
            return end, end
        inside = self._scope(node, part, scope)
        if node.op == "call_module":
            name = _joined(part, str(node.target))
            call, self.calls[name] = self.calls[name], self.calls[name] + 1
            return self._draw_call(name, call, inside)
        drawn = self._add(self._box(node, inside))
        return drawn, drawn

    def _draw_call(self, name: str, call: int, scope: tuple[str, ...]) -> Ends:
        """Draws a call of a module: a box, or a cluster around what happens inside."""
        compiled = self.made.compiled
        is_python = name in compiled.capture.python
        if not is_python and name not in compiled.parts:
            drawn = self._add(self._module_box("module", name, call, scope))
            return drawn, drawn
        inside = (*scope, f"{name}@{call}" if call else name)
        self.clusters[inside] = self._module_box(
            "python" if is_python else "module", name, call, scope
        )
        if name in compiled.parts:
            return self._draw_graph(name, call, inside)
        return self._draw_python(name, call, inside)

    def _draw_python(self, name: str, call: int, scope: tuple[str, ...]) -> Ends:
        """Draws a forward that stayed Python: as a run showed it, or its parts side by side."""
        flow = self._flow_inside(name, call)
        if flow is None:
            drawn = self._add(self._python_box(name, scope))
            self._draw_parts(name, scope)
            return drawn, drawn
        entry, leaving = self._ends(name)
        ends = {IN: (entry, entry), OUT: (leaving, leaving)}
        for node in flow:
            if node not in ends:
                ends[node] = self._draw_followed(node, scope)
        for source, target in flow.edges:
            shape = self._followed_shape(flow, (name, call), source, target)
            self._connect(ends[source][1], ends[target][0], shape)
        return entry, leaving

    def _draw_followed(self, node: CallNode | JoinNode, scope: tuple[str, ...]) -> Ends:
        # The first is the forward that is drawn itself; the model's own has no cluster yet.
        for name, call in node.scope[bool(scope) :]:
            scope = (*scope, f"{name}@{call}" if call else name)
            if scope not in self.clusters:
                self.clusters[scope] = self._module_box("python", name, call, scope[:-1])
        if isinstance(node, CallNode):
            return self._draw_call(node.module, node.call, scope)
        drawn = self._add(Box("op", node.operation, scope=scope))
        return drawn, drawn

    def _flow_inside(self, name: str, call: int) -> nx.DiGraph | None:
        return None if self.flow is None else self.flow.inside.get((name, call))

    def _ends(self, part: str) -> Ends:
        """Boxes for what a forward is given and returns; inside a model, points to join through."""
        if not part and "" not in self.made.compiled.parts:
            return self._add(Box("input", "input")), self._add(Box("output", "output"))
        return self._add(None), self._add(None)

    def _join_through(self) -> None:
        for name in [name for name, box in boxes(self.graph) if not isinstance(box, Box)]:
            before = list(self.graph.in_edges(name, data="shape"))
            after = list(self.graph.out_edges(name, data="shape"))
            for a, _, given in before:
                for _, b, taken in after:
                    self._connect(a, b, _joined_shape(given, taken, len(before) == 1))
            self.graph.remove_node(name)

    def _connect(self, source: str, target: str, shape: str) -> None:
        """Adds an edge; one over which several shapes pass has none."""
        there = self.graph.get_edge_data(source, target, {"shape": shape})
        self.graph.add_edge(source, target, shape=shape if there["shape"] == shape else "")

    def _seen_in_graph(self, part: str, call: int) -> Mapping[str, Shapes]:
        """What the nodes of the graph that is drawn for a part were given and made in a call."""
        drawn = self.made.compiled.capture.graphs[part][0].graph
        return {} if self.flow is None else self.flow.nodes.get((drawn, call), {})

    def _followed_shape(self, inside: nx.DiGraph, call: Any, source: Any, target: Any) -> str:
        """The shape of what one call hands to another, or else of all that the other was given.

        Between them, operations that only this value passed through may have changed it.
        """
        handed, taken = self._seen_at(source, call)[1], self._seen_at(target, call)[0]
        if len(handed) == 1:
            return _text(handed[0])
        return _text(taken[0]) if len(taken) == inside.in_degree(target) == 1 else ""

    def _seen_at(self, node: Any, call: Any) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
        """What was given to a node of the flow in a call's forward, and what it handed on."""
        key = (node.module, node.call) if isinstance(node, CallNode) else call
        seen = None if self.flow is None else self.flow.shapes.get(key)
        if seen is None or isinstance(node, JoinNode):
            return (), ()
        if isinstance(node, CallNode):
            return seen.inputs, seen.outputs
        return (seen.outputs, ()) if node == OUT else ((), seen.inputs)

    def _add(self, box: Box | None) -> str:
        name = f"n{next(self.numbers)}"
        self.graph.add_node(name, box=box)
        return name

    def _box(self, node: fx.Node, scope: tuple[str, ...]) -> Box:
        if node.op == "placeholder":
            return Box("input", str(node.target).lstrip("*"), scope=scope)
        if node.op == "output":
            return Box("output", "output")
        if node.op == "get_attr":
            return Box("parameter", str(node.target).rpartition(".")[2], scope=scope)
        label = node.target if isinstance(node.target, str) else _function_name(node.target)
        if "site" not in node.meta:
            return Box("op", label, scope=scope)
        site, call = node.meta["site"]
        label += f" (call {call + 1})" if call else ""
        notes = (site, *self._shapes(site, call))
        return Box("op", label, "", site, scope, self._marks(site, call), notes)

    def _scope(self, node: fx.Node, part: str, scope: tuple[str, ...]) -> tuple[str, ...]:
        keys = list(node.meta.get("nn_module_stack", {}))
        for key in keys[:-1] if node.op == "call_module" else keys:
            scope = (*scope, _joined(part, key))
            name, _, call = scope[-1].partition("@")
            if scope not in self.clusters:
                self.clusters[scope] = self._module_box("module", name, int(call or 0), scope[:-1])
        return scope

    def _draw_parts(self, name: str, scope: tuple[str, ...]) -> None:
        for child_name, child in self.modules[name].named_children():
            path = f"{name}.{child_name}" if name else child_name
            if path not in self.modules:
                continue  # the same module under another name
            if next(child.children(), None) is None or path in self.made.compiled.parts:
                self._draw_call(path, 0, scope)
            else:
                self.clusters[(*scope, path)] = self._module_box("module", path, 0, scope)
                self._draw_parts(path, (*scope, path))

    def _python_box(self, name: str, scope: tuple[str, ...]) -> Box:
        notes = [self.made.compiled.capture.python.get(name, "")]
        if self.flow is not None and self.flow.problem is not None:
            notes.append(f"its data flow could not be followed: {self.flow.problem!r}")
        marks = Marks() if scope else self._marks(name, 0)
        label = "forward" if name else type(self.root).__name__
        return Box("python", label, "in Python", name, scope, marks, tuple(notes))

    def _module_box(self, kind: Kind, name: str, call: int, scope: tuple[str, ...]) -> Box:
        module = self.modules[name]
        label = name.rpartition(".")[2] or "model"
        label += f" (call {call + 1})" if call else ""
        notes = (f"{name}: {_summary(module)}", *self._shapes(name, call))
        if kind == "python":
            notes += (f"its forward stayed Python: {self.made.compiled.capture.python[name]}",)
        class_name = type(module).__name__
        return Box(kind, label, class_name, name, scope, self._marks(name, call), notes)

    def _shapes(self, name: str, call: int) -> Iterator[str]:
        table = self.made.compiled.table
        if name not in table.plan:
            return
        shapes = {
            str(reading.site.port).removesuffix("_grad"): slot.shape
            for reading, slot in table.at("train", name, call).items()
            if slot.shape is not None
        }
        for side, shape in sorted(shapes.items()):
            yield f"{side} {' x '.join(map(str, shape)) or 'scalar'}"

    def _marks(self, name: str, call: int) -> Marks:
        found: dict[str, list[str]] = {"forward": [], "backward": [], "parameters": []}
        for subscription in self.made.monitor.subscriptions:
            if subscription.module == name:
                side = _side(subscription)
                if side != "parameters" or call == 0:
                    found[side].append(_entry(subscription))
        target = self.made.compiled.table.plan.get(name)
        edits = map(_edit_entry, target.changes) if target else ()
        return Marks(*(tuple(found[side]) for side in found), edits=tuple(edits))


def _shapes_passed(
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
    return {source: _text(shape) for source, shape in single.items()}


def _joined_shape(given: str, taken: str, is_only: bool) -> str:
    """The shape of what passes a point: of what comes there, and of what is taken from there."""
    if not given:
        return taken if is_only else ""
    return given if taken in ("", given) else ""


def _text(shape: Shape) -> str:
    return "×".join("?" if size < 0 else str(size) for size in shape) or "scalar"


def _joined(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name


def _side(subscription: Subscription) -> str:
    ports = {reading.site.port for reading in subscription.readings.values()}
    if ports.intersection(GRADIENT_PORTS):
        return "backward"
    return "forward" if ports.intersection(VALUE_PORTS) else "parameters"


def _entry(subscription: Subscription) -> str:
    schedules = ", ".join(map(str, subscription.schedules))
    always = schedules in ("linear(0, 0)", "linear(1, 0)")
    return subscription.label if always else f"{subscription.label} · {schedules}"


def _edit_entry(change: Change) -> str:
    side, _, is_grad = str(change.site.port).partition("_")
    function = change.function
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    pick = change.site.pick
    picked = (pick[1] or pick[0]) if isinstance(pick, tuple) else pick
    where = f"{side} {'gradient' if is_grad else 'value'}"
    return f"{where}{'' if picked is None else f' [{picked}]'} · {name}"


def _summary(module: nn.Module) -> str:
    extra = module.extra_repr() if next(module.children(), None) is None else ""
    return f"{type(module).__name__}({extra})" if extra else type(module).__name__


def _is_ours(node: fx.Node) -> bool:
    return is_probe(node) or is_edit(node) or node.target in (pack, unpack)


def _is_unused_input(node: fx.Node) -> bool:
    return node.op == "placeholder" and all(user.target is pack for user in node.users)


def _function_name(target: Any) -> str:
    return getattr(target, "__name__", str(target)).strip("_")


def _sources(value: Any, path: tuple[Any, ...] = ()) -> Iterator[fx.Node]:
    """The drawn nodes that a value comes from, through probes and what stands around them."""
    if isinstance(value, fx.Node):
        if is_probe(value) or is_edit(value):
            yield from _sources(value.args[0], path)
        elif value.target is unpack:
            inner, outer = cast(tuple[Any, tuple[Any, ...]], value.args)
            yield from _sources(inner, (*outer, *path))
        elif value.target is pack:
            yield from _sources({".args": value.args[0], ".kwargs": value.args[1]}, path)
        else:
            yield value
    elif path and isinstance(value, (tuple, list, Mapping)):
        yield from _sources(value[path[0]], path[1:])
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _sources(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _sources(part)
