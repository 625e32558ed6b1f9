"""Where the probes stand: an instrumented model as a graph of modules, to look at and to export."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import networkx as nx
from torch import fx, nn

from taiyi_fx import dot
from taiyi_fx.boxes import Box, Kind, Marks, boxes
from taiyi_fx.config import Subscription
from taiyi_fx.instrument import InstrumentedModule
from taiyi_fx.passes.compiler import python_forward
from taiyi_fx.passes.insert_probes import is_probe
from taiyi_fx.passes.ir import GRADIENT_PORTS, VALUE_PORTS
from taiyi_fx.passes.marks import pack, unpack


class Diagram:
    """Modules, operations and probes of an instrumented model.

    Attributes:
        clusters: Modules that are drawn around their parts: by scope, their box.
    """

    def __init__(self, graph: nx.DiGraph, clusters: Mapping[tuple[str, ...], Box]) -> None:
        self._graph = graph
        self.clusters = dict(clusters)

    def to_networkx(self) -> nx.DiGraph:
        """A directed graph; each node has a `Box` as its attribute ``box``."""
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

    def __repr__(self) -> str:
        marked = sum(bool(box.marks) for _, box in boxes(self._graph))
        return f"<diagram of {len(self._graph)} boxes, {marked} with probes>"


def diagram(instrumented: InstrumentedModule) -> Diagram:
    """A diagram of an instrumented model: its modules, its data flow and its probes.

    A forward that stayed Python is drawn as a dashed box inside the module, with its parts beside
    it and no edges between them: a symbolic trace cannot tell those.

    Raises:
        TypeError: The argument did not come from `taiyi_fx.instrument`.
    """
    if not isinstance(instrumented, InstrumentedModule):
        kind = type(instrumented).__name__
        raise TypeError(f"diagram takes what taiyi_fx.instrument returned, not a {kind}")
    drawing = _Drawing(instrumented)
    drawing.draw(instrumented.graph)
    return Diagram(drawing.graph, drawing.clusters)


class _Drawing:
    def __init__(self, instrumented: InstrumentedModule) -> None:
        self.made = instrumented._instrumented
        self.root = self.made.compiled.root
        self.modules = dict(self.root.named_modules())
        self.graph = nx.DiGraph()
        self.clusters: dict[tuple[str, ...], Box] = {}
        self.calls: Counter[str] = Counter()
        self.ids: dict[fx.Node, str] = {}

    def draw(self, graph: fx.Graph) -> None:
        if any(node.target is python_forward for node in graph.nodes):
            self._add(self._python_box("", ()))
            self._draw_parts("", ())
            return
        for node in graph.nodes:
            if is_probe(node) or node.target in (pack, unpack) or _is_unused_input(node):
                continue
            box = self._box(node)
            self.ids[node] = self._add(box)
            if box.kind == "python":
                self._draw_parts(box.path, box.scope)
            for source in dict.fromkeys(_sources((node.args, node.kwargs))):
                self.graph.add_edge(self.ids[source], self.ids[node])

    def _add(self, box: Box) -> str:
        name = f"n{len(self.graph)}"
        self.graph.add_node(name, box=box)
        return name

    def _box(self, node: fx.Node) -> Box:
        stack = node.meta.get("nn_module_stack", {})
        scope = self._scope(stack, is_call=node.op == "call_module")
        if node.op == "call_module":
            return self._call(str(node.target), scope)
        if node.op == "placeholder":
            return Box("input", str(node.target).lstrip("*"), scope=scope)
        if node.op == "output":
            return Box("output", "output")
        if node.op == "get_attr":
            return Box("parameter", str(node.target).rpartition(".")[2], scope=scope)
        name = node.target if isinstance(node.target, str) else _function_name(node.target)
        return Box("op", name, scope=scope)

    def _scope(self, stack: Mapping[str, Any], *, is_call: bool) -> tuple[str, ...]:
        keys = list(stack)
        outer = keys[:-1] if is_call else keys
        scope: tuple[str, ...] = ()
        for key in outer:
            scope = (*scope, key)
            name, _, call = key.partition("@")
            self._cluster(scope, name, int(call or 0))
        return scope

    def _cluster(self, scope: tuple[str, ...], name: str, call: int) -> None:
        if scope not in self.clusters:
            self.clusters[scope] = self._module_box("module", name, call, scope[:-1])

    def _call(self, name: str, scope: tuple[str, ...]) -> Box:
        call, self.calls[name] = self.calls[name], self.calls[name] + 1
        if name not in self.made.compiled.capture.python:
            return self._module_box("module", name, call, scope)
        inside = (*scope, f"{name}@{call}" if call else name)
        self.clusters[inside] = self._module_box("module", name, call, scope)
        return self._python_box(name, inside)

    def _draw_parts(self, name: str, scope: tuple[str, ...]) -> None:
        for child_name, child in self.modules[name].named_children():
            path = f"{name}.{child_name}" if name else child_name
            if path not in self.modules:
                continue  # the same module under another name
            if next(child.children(), None) is None:
                self._add(self._module_box("module", path, 0, scope))
            else:
                self.clusters[(*scope, path)] = self._module_box("module", path, 0, scope)
                self._draw_parts(path, (*scope, path))

    def _python_box(self, name: str, scope: tuple[str, ...]) -> Box:
        reason = self.made.compiled.capture.python.get(name, "")
        marks = Marks() if scope else self._marks(name, 0)
        label = "forward" if name else type(self.root).__name__
        return Box("python", label, "in Python", name, scope, marks, (reason,))

    def _module_box(self, kind: Kind, name: str, call: int, scope: tuple[str, ...]) -> Box:
        module = self.modules[name]
        label = name.rpartition(".")[2] or type(module).__name__
        label += f" (call {call + 1})" if call else ""
        notes = (f"{name}: {_summary(module)}", *self._shapes(name, call))
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
        return Marks(*(tuple(found[side]) for side in found))


def _side(subscription: Subscription) -> str:
    ports = {reading.site.port for reading in subscription.readings.values()}
    if ports.intersection(GRADIENT_PORTS):
        return "backward"
    return "forward" if ports.intersection(VALUE_PORTS) else "parameters"


def _entry(subscription: Subscription) -> str:
    schedules = ", ".join(map(str, subscription.schedules))
    always = schedules in ("linear(0, 0)", "linear(1, 0)")
    return subscription.label if always else f"{subscription.label} · {schedules}"


def _summary(module: nn.Module) -> str:
    extra = module.extra_repr() if next(module.children(), None) is None else ""
    return f"{type(module).__name__}({extra})" if extra else type(module).__name__


def _is_unused_input(node: fx.Node) -> bool:
    return node.op == "placeholder" and all(user.target is pack for user in node.users)


def _function_name(target: Any) -> str:
    return getattr(target, "__name__", str(target)).strip("_")


def _sources(value: Any, path: tuple[Any, ...] = ()) -> Iterator[fx.Node]:
    """The drawn nodes that a value comes from, through probes and what stands around them."""
    if isinstance(value, fx.Node):
        if is_probe(value):
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
