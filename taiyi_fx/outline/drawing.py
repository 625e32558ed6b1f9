"""Boxes and edges of a model: of its captured graphs, and of forwards that stayed Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import networkx as nx
from torch import fx, nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.outline.families import family_of
from taiyi_fx.outline.items import STAYED_PYTHON, Item, Kind
from taiyi_fx.outline.marks import MarksOfModules
from taiyi_fx.outline.shapes import SeenShapes, joined_shape, shapes_passed
from taiyi_fx.passes.capture.marks import pack, unpack
from taiyi_fx.passes.capture.unpacking import items_of
from taiyi_fx.passes.flow.contract import IN, OUT, Argument, CallNode, JoinNode
from taiyi_fx.passes.flow.observer import Flow
from taiyi_fx.passes.module_tree import has_children, named_children, named_modules
from taiyi_fx.passes.probes.edited import is_edit
from taiyi_fx.passes.rewrite.insert_probes import is_probe
from taiyi_fx.passes.runtime.build import Instrumented
from taiyi_fx.passes.structure import tensor_named

Scope = tuple[str, ...]
"""The calls of modules that a box stands in, the outermost first."""


class Ends(NamedTuple):
    """The nodes of the drawing where edges enter something, and where they leave it.

    Attributes:
        entry: The node where edges enter, of which the argument is not known.
        leaving: The node where they leave.
        inputs: The nodes where those of known arguments enter, if there are others for these; by
            ``"*"`` and ``"**"`` that of all further ones.
        results: The nodes where those of one of several results leave.
    """

    entry: str
    leaving: str
    inputs: Mapping[Argument, str] = MappingProxyType({})
    results: Mapping[int, str] = MappingProxyType({})

    @staticmethod
    def at(box: str) -> Ends:
        """Those of one box."""
        return Ends(box, box)

    def entry_of(self, argument: Argument | None) -> str:
        """The node where edges of an argument enter, or of any if it is not known."""
        if argument is None:
            return self.entry
        others = self.inputs.get("*" if isinstance(argument, int) else "**", self.entry)
        return self.inputs.get(argument, others)

    def leaving_of(self, place: int | None) -> str:
        """The node where edges of a result leave, or of any if it is not known."""
        return self.leaving if place is None else self.results.get(place, self.leaving)


class Drawing:
    """Makes the boxes and edges of an outline.

    Attributes:
        graph: The boxes and edges: nodes have an ``item``, and a ``scope`` that it stands in.
        clusters: Modules that are drawn around their parts: by scope, their item.
    """

    def __init__(
        self, compiled: Instrumented, subscriptions: Sequence[Subscription], flow: Flow | None
    ) -> None:
        self.compiled = compiled
        self.flow = flow
        self._marks = MarksOfModules(subscriptions, compiled.table.plan)
        self._shapes = SeenShapes(compiled, flow)
        self.modules = dict(named_modules(compiled.root, remove_duplicate=False))
        self.first_names = dict(named_modules(compiled.root)).keys()
        self.graph = nx.DiGraph()
        self.clusters: dict[Scope, Item] = {}
        self.calls: Counter[str] = Counter()
        self.numbers = itertools.count()

    def draw(self) -> None:
        """Draws the whole model into `graph` and `clusters`."""
        if "" in self.compiled.parts:
            self._draw_graph("", 0, ())
        else:
            self._draw_python("", 0, ())
        self._draw_functions()
        self._join_through()

    def model(self) -> Item:
        """The item of the model itself, which all others stand in."""
        return self._module("python" if "" in self.compiled.capture.python else "module", "", 0)

    def uncalled(self, drawn: Collection[str]) -> Iterator[Item]:
        """Items of modules with quantities that are not drawn because they are never called."""
        for name in self._marks.modules:
            if name in self.modules and name not in drawn:
                item = self._module("module", name, 0)
                note = "it is never called here: only its parameters can be read"
                yield dataclasses.replace(item, is_called=False, notes=(*item.notes, note))

    def _draw_graph(self, part: str, call: int, scope: Scope) -> Ends:
        """Draws the captured graph of a part; returns its two ends."""
        whole, results = self._ends(part), dict[Any, str]()
        seen = self._shapes.in_graph(part, call)
        ids: dict[fx.Node, str] = {}
        drawn = [node for node in self.compiled.parts[part].nodes if not _is_ours(node)]
        every = {node: _sources_of_arguments(node) for node in drawn}
        used = {source for sources in every.values() for source, _ in sources}
        for node, given in every.items():
            if _is_only_packed(node) and node not in used:
                continue
            ends = self._draw_node(node, part, scope, whole)
            shapes = shapes_passed(seen, _taker(node), [source for source, _ in given])
            for source, argument in dict.fromkeys(given):
                entry = ends.entry_of(argument)
                self._connect(ids[source], entry, shapes.get(source, ""))
            ids[node] = ends.leaving
            if node.op == "output":
                results = dict(ends.inputs)
        inputs = _inputs(self.compiled.parts[part], ids)
        return whole._replace(inputs=inputs, results=results)

    def _draw_node(self, node: fx.Node, part: str, scope: Scope, ends: Ends) -> Ends:
        if part and node.op == "output":
            return Ends(ends.leaving, ends.leaving, self._draw_results(node, ends.leaving))
        if part and node.op == "placeholder":
            own = self._add(None)
            self._connect(ends.entry, own, "")
            return Ends.at(own)
        inside = self._scope(node, part, scope)
        if node.op == "call_module":
            name = _joined(part, str(node.target))
            call, self.calls[name] = self.calls[name], self.calls[name] + 1
            return self._draw_call(name, call, inside)
        return Ends.at(
            self._add(self._operation(node, part), () if node.op == "output" else inside)
        )

    def _draw_results(self, output: fx.Node, leaving: str) -> dict[Argument, str]:
        """Nodes without an item for the results of a part's graph, by their places."""
        made: dict[Argument, str] = {i: self._add(None) for i in range(len(_results(output)))}
        for own in made.values():
            self._connect(own, leaving, "")
        return made

    def _draw_call(self, name: str, call: int, scope: Scope) -> Ends:
        """Draws a call of a module: as a box, or as a cluster around its forward."""
        compiled = self.compiled
        is_python = name in compiled.capture.python
        if not is_python and name not in compiled.parts:
            return Ends.at(self._add(self._module("module", name, call), scope))
        inside = (*scope, _called(name, call))
        self.clusters[inside] = self._module("python" if is_python else "module", name, call)
        if name in compiled.parts:
            return self._draw_graph(name, call, inside)
        return self._draw_python(name, call, inside)

    def _draw_python(self, name: str, call: int, scope: Scope) -> Ends:
        """Draws a forward that stayed Python: as a run showed it, or its children without edges."""
        flow = self._flow_inside(name, call)
        if flow is None:
            drawn = self._add(self._python(name, inside=bool(scope)), scope)
            if not call:  # which calls of its parts belong to a later one is not known
                self._draw_parts(name, scope)
            return Ends.at(drawn)
        whole = self._ends(name)
        ends = {IN: Ends.at(whole.entry), OUT: Ends.at(whole.leaving)}
        for node in flow:
            if node not in ends:
                ends[node] = self._draw_followed(node, scope)
        for source, target, passes in flow.edges(data="passes"):
            shape = self._shapes.followed(flow, (name, call), source, target)
            for place, argument in passes:
                leaving, entry = ends[source].leaving_of(place), ends[target].entry_of(argument)
                self._connect(leaving, entry, shape)
        return whole

    def _draw_followed(self, node: CallNode | JoinNode, scope: Scope) -> Ends:
        # The first is the forward that is drawn itself.
        for name, call in node.scope[1:]:
            scope = (*scope, _called(name, call))
            if scope not in self.clusters:
                self.clusters[scope] = self._module("python", name, call)
        if isinstance(node, CallNode) and node.module in self.modules:
            return self._draw_call(node.module, node.call, scope)
        if isinstance(node, CallNode):
            item = self._function(_function_of(node.module), node.module, node.call)
        else:
            item = Item("op", node.operation)
        return Ends.at(self._add(item, scope))

    def _flow_inside(self, name: str, call: int) -> nx.DiGraph | None:
        return None if self.flow is None else self.flow.inside.get((name, call))

    def _ends(self, part: str) -> Ends:
        """Input and output boxes of the model; for a part, nodes that `_join_through` removes."""
        if not part and "" not in self.compiled.parts:
            return Ends(self._add(Item("input", "input")), self._add(Item("output", "output")))
        return Ends(self._add(None), self._add(None))

    def _draw_functions(self) -> None:
        """Draws the functions whose calls no followed run has shown, without edges."""
        items = [data["item"] for _, data in self.graph.nodes(data=True)]
        drawn = {item.module for item in items if item is not None}
        homes = {item.module: scope for scope, item in self.clusters.items()}
        for site in self._marks.modules:
            home, _, name = site.rpartition(".")
            read = self.compiled.table.calls("train", site) if name.endswith("()") else 0
            for call in range(read if home in homes and site not in drawn else 0):
                item = self._function(_function_of(site), site, call)
                self._add(item, homes.get(_called(home, call), homes[home]))

    # A part's graph has its own inputs and outputs, but what feeds the part is drawn outside it,
    # later or earlier, by another graph. So the part gets nodes without an item where edges enter,
    # one for each input and one for all, and such where they leave; both sides connect to these.
    # When everything is drawn they are removed, and each edge in is joined with each edge out:
    # values pass through a module's border without a box of their own. With several edges in, a
    # shape that is known on the way out alone may be of any of them, so it is dropped.
    def _join_through(self) -> None:
        for name in [name for name, item in self.graph.nodes(data="item") if item is None]:
            before = list(self.graph.in_edges(name, data="shape"))
            after = list(self.graph.out_edges(name, data="shape"))
            for a, _, given in before:
                for _, b, taken in after:
                    self._connect(a, b, joined_shape(given, taken, len(before) == 1))
            self.graph.remove_node(name)

    def _connect(self, source: str, target: str, shape: str) -> None:
        """Adds an edge; its shape is empty if values of several shapes pass."""
        there = self.graph.get_edge_data(source, target, {"shape": shape})
        self.graph.add_edge(source, target, shape=shape if there["shape"] == shape else "")

    def _add(self, item: Item | None, scope: Scope = ()) -> str:
        name = f"n{next(self.numbers)}"
        self.graph.add_node(name, item=item, scope=scope)
        return name

    def _operation(self, node: fx.Node, part: str) -> Item:
        if node.op == "placeholder":
            return Item("input", str(node.target).lstrip("*"))
        if node.op == "output":
            return Item("output", "output")
        if node.op == "get_attr":
            return self._attribute(_joined(part, str(node.target)))
        label = _operation_name(node)
        if "site" not in node.meta:
            return Item("op", label)
        return self._function(label, *node.meta["site"])

    def _function(self, label: str, site: str, call: int) -> Item:
        """The box of a function whose calls have a name in records."""
        marks, notes = self._marks.at(site, call), tuple(self._shapes.of_call(site, call))
        label += f" (call {call + 1})" if call else ""
        return Item("op", label, module=_called(site, call), marks=marks, notes=notes)

    def _attribute(self, path: str) -> Item:
        """The box of a tensor that a graph takes from the model."""
        home, _, name = path.rpartition(".")
        found = tensor_named(self.modules[home], name) if home in self.modules else None
        kind = "parameter" if isinstance(found, nn.Parameter) else "buffer"
        return Item("parameter", name, kind, notes=(path,))

    def _scope(self, node: fx.Node, part: str, scope: Scope) -> Scope:
        keys = list(node.meta.get("nn_module_stack", {}))
        for key in keys[:-1] if node.op == "call_module" else keys:
            scope = (*scope, _joined(part, key))
            if scope not in self.clusters:
                self.clusters[scope] = self._module("module", *self._call_of(scope[-1]))
        return scope

    def _draw_parts(self, name: str, scope: Scope) -> None:
        for child_name, child in named_children(self.modules[name]):
            path = f"{name}.{child_name}" if name else child_name
            if path not in self.first_names:
                continue  # the same module under another name
            if not has_children(child) or path in self.compiled.parts:
                self._draw_call(path, 0, scope)
            else:
                self.clusters[(*scope, path)] = self._module("module", path, 0)
                self._draw_parts(path, (*scope, path))

    def _call_of(self, called: str) -> tuple[str, int]:
        """The module and the number of the call that a name such as ``fc@1`` stands for."""
        if called in self.modules:  # a name may end like a call
            return called, 0
        name, _, call = called.rpartition("@")
        return name, int(call)

    def _python(self, name: str, *, inside: bool) -> Item:
        """The box of a forward that stayed Python and whose data flow is not known."""
        notes = [self.compiled.capture.python.get(name, "")]
        if self.flow is not None and self.flow.problem is not None:
            notes.append(f"its data flow could not be followed: {self.flow.problem!r}")
        label = "forward" if inside else type(self.compiled.root).__name__
        return Item("python", label, "in Python", notes=tuple(notes))

    def _module(self, kind: Kind, name: str, call: int) -> Item:
        module = self.modules[name]
        class_name = type(module).__name__
        notes = [_summary(module), *self._shapes.of_call(name, call)]
        if kind == "python":
            notes.append(f"{STAYED_PYTHON}{self.compiled.capture.python[name]}")
        label = name.rpartition(".")[2] or "model"
        return Item(
            kind,
            f"{label} (call {call + 1})" if call else label,
            class_name,
            module=_called(name, call),
            family=family_of(class_name),
            marks=self._marks.at(name, call),
            notes=tuple(notes),
        )


def _joined(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name


def _function_of(site: str) -> str:
    """The name of the function of a site, ``attention`` of ``block.attention()``."""
    return site.rpartition(".")[2].removesuffix("()")


def _called(name: str, call: int) -> str:
    return f"{name}@{call}" if call else name


def _summary(module: nn.Module) -> str:
    extra = module.extra_repr() if not has_children(module) else ""
    return f"{type(module).__name__}({extra})" if extra else type(module).__name__


def _is_ours(node: fx.Node) -> bool:
    return _hands_on(node) or node.target in (pack, unpack)


def _taker(node: fx.Node) -> fx.Node:
    """The node that received a drawn node's inputs: itself, or the `items_of` that unpacks them."""
    given = node.args[0] if node.args else None
    return given if isinstance(given, fx.Node) and given.target is items_of else node


def _hands_on(node: fx.Node) -> bool:
    return is_probe(node) or is_edit(node) or node.target is items_of


def _inputs(graph: fx.Graph, drawn: Mapping[fx.Node, str]) -> dict[Argument, str]:
    """The drawn nodes of a graph's inputs, by name, and those before any ``*args`` by position."""
    every = {str(node.target): node for node in graph.nodes if node.op == "placeholder"}
    named = {name: drawn[node] for name, node in every.items() if node in drawn}
    placed = enumerate(itertools.takewhile(lambda name: not name.startswith("*"), every))
    starred = {"*" * name.count("*"): box for name, box in named.items() if name.startswith("*")}
    return {**named, **{i: named[name] for i, name in placed if name in named}, **starred}


def _is_only_packed(node: fx.Node) -> bool:
    return node.op == "placeholder" and all(user.target is pack for user in node.users)


def _operation_name(node: fx.Node) -> str:
    if node.target is getattr:
        return str(node.args[1])
    if isinstance(node.target, str):
        return node.target
    return getattr(node.target, "__name__", str(node.target)).strip("_")


def _results(output: fx.Node) -> Sequence[Any]:
    """The results that a graph returns."""
    returned = output.args[0]
    return returned if isinstance(returned, (tuple, list)) else (returned,)


def _sources_of_arguments(node: fx.Node) -> list[tuple[fx.Node, Argument]]:
    """The drawn nodes that a node's inputs come from, each with the argument that it is.

    Of the output of a graph, the results are the arguments.
    """
    args = _results(node) if node.op == "output" else node.args
    given = (*enumerate(args), *node.kwargs.items())
    return [(source, argument) for argument, value in given for source in _sources(value)]


def _sources(value: Any, path: tuple[Any, ...] = ()) -> Iterator[fx.Node]:
    """The drawn nodes that a value comes from, looking through probes, edits and marks."""
    if isinstance(value, fx.Node):
        if _hands_on(value):
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
