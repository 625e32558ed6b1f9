"""Lowers probes to fast functions or, for compiled code, to calls with constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx, nn

from taiyi_fx.passes.ir import GRADIENT_PORTS
from taiyi_fx.passes.probes.at_end import LEAST, ReadAtEnd, Waiting
from taiyi_fx.passes.probes.compiled import (
    READ_BY,
    here_on,
    read_gradients,
    read_values,
    room_of,
)
from taiyi_fx.passes.probes.compiling import take_operations
from taiyi_fx.passes.probes.modes import with_modes_off
from taiyi_fx.passes.rewrite.changes import called_modules
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.fresh import makes_new
from taiyi_fx.passes.rewrite.insert_probes import is_probe

_MOST = 8
"""The most values that compiled code reads at once, and so keeps until then."""
_MAY_SPLIT = (nn.RNNBase, nn.MultiheadAttention)
"""Modules of torch's own in which the compiler may end a graph."""


def lower_probes(graph: fx.Graph, context: Context) -> fx.Graph:
    """Replaces each probe by its fast function, in place.

    In a graph that is to be compiled it becomes a call with constants, which need no guards.
    """
    if not context.is_compiled:
        _lower_in_eager(graph, context)
        return graph
    take_operations()
    probes = [node for node in graph.nodes if is_probe(node)]
    if any(node.target.slots for node in probes):
        _Lowering(graph, context).lower()
    for node in probes:
        graph.erase_node(node)  # one without slots is the end of a call, which is not needed there
    return graph


def _lower_in_eager(graph: fx.Graph, context: Context) -> None:
    probes = [node for node in graph.nodes if is_probe(node)]
    waiting = _those_that_may_wait(probes, context)
    for node in probes:
        if node not in waiting:
            fast = node.target.fast_path()
            node.target = with_modes_off(fast) if context.are_modes_on else fast
    if not waiting:
        return
    sizes = context.sizes
    assert sizes is not None
    (output,) = graph.find_nodes(op="output")
    values: list[Any] = []
    if context.at_end:
        for node in waiting:
            values.append(value := node.args[0])
            node.replace_all_uses_with(value)
            graph.erase_node(node)
        end = _named("read", ReadAtEnd([*waiting.values()], context.table.board.held, sizes))
    else:
        for place, (node, probe) in enumerate(waiting.items()):
            node.target = sizes.noting(probe.read, place)
        end = _named("note_sizes", sizes.end)
    with graph.inserting_before(output):
        graph.call_function(end, tuple(values))


def _those_that_may_wait(probes: Sequence[Any], context: Context) -> dict[Any, Waiting]:
    """The probes whose readings may wait for the end of the graph, if that saves any time."""
    if context.sizes is None or context.are_modes_on:
        return {}
    found = {
        node: probe
        for node in probes
        if len(node.args) == 1 and isinstance(node.args[0], fx.Node)
        if (probe := node.target.waiting()) is not None
    }
    return found if len(found) >= LEAST else {}


def _named(name: str, function: Callable[..., None]) -> Callable[..., None]:
    def named(*values: Any) -> None:
        function(*values)

    named.__name__, named.__module__ = name, "taiyi_fx"
    return named


# The compiler takes some 15 ms to trace the calls of a probe, and little more for those of several
# probes at once. So a call waits for those of the next probes where that changes nothing: where the
# tensor is not changed meanwhile and, of a gradient, where nothing could change its place in
# autograd's graph. Nothing waits for long: the numbers of a large tensor would keep it in memory
# where the compiler does not move operations, and code of the model between that the compiler may
# split would leave the call in another of its graphs, which sees a part of the gradient.
class _Lowering:
    """The lowering of a graph's probes for compiled code.

    Args:
        graph: The graph.
        context: The passes' context.
    """

    def __init__(self, graph: fx.Graph, context: Context) -> None:
        self.graph = graph
        self.modules = called_modules(graph, context.part)
        gradients = sum(reading.site.port in GRADIENT_PORTS for _, reading in context.due)
        self.room = room_of(gradients)
        with graph.inserting_before(_first(graph)):
            self.here = graph.call_function(here_on(context.table.board))
        self.values: list[Any] = []
        self.gradients: list[Any] = []

    def lower(self) -> None:
        """Puts calls for the steps of all probes into the graph; the probes are used no more."""
        for node in list(self.graph.nodes):
            if is_probe(node):
                self._lower(node)
            elif self._may_split(node):
                self._read_values(node)
                self._read_gradients(node)

    def _lower(self, probe: Any) -> None:  # fx's nodes are untyped
        """Puts calls for a probe's steps in front of it, or lets them wait; replaces its uses."""
        value, *rest = probe.args
        given = rest[0] if rest else None
        for what, aliasing, pick, reader in probe.target.steps():
            if what == "value":
                self.values.append((value, pick, reader))
                if not probe.meta.get("is_last", False) or len(self.values) == _MOST:
                    self._read_values(probe)
            elif what == "gradient" and aliasing == "made here" and _stays_inside(probe):
                self.gradients.append((value, pick, reader))
            else:
                if what == "call":  # the order of readings is that of the calls
                    self._read_values(probe)
                value = self._put(probe, READ_BY[what], value, given, aliasing, pick, reader)
                value.meta.update(probe.meta)
        probe.replace_all_uses_with(value)

    def _read_values(self, before: fx.Node) -> None:
        if len(self.values) == 1:  # in fewer instructions
            ((value, pick, reader),) = self.values
            self._put(before, READ_BY["value"], value, None, "shared", pick, reader)
        elif self.values:
            self._put(before, read_values, tuple(self.values))
        self.values = []

    def _read_gradients(self, before: fx.Node) -> None:
        if self.gradients:
            self._put(before, read_gradients, tuple(self.gradients))
        self.gradients = []

    def _put(self, before: fx.Node, function: Any, *args: Any) -> fx.Node:
        with self.graph.inserting_before(before):
            return self.graph.call_function(function, (self.here, *args, self.room))

    def _may_split(self, node: fx.Node) -> bool:
        """True if the compiler may end a graph of its own at a node, or at the graph's end."""
        if node.op in ("placeholder", "get_attr") or node is self.here:
            return False
        if node.op == "call_module" and isinstance(self.modules[str(node.target)], _MAY_SPLIT):
            return True
        return not makes_new(node, self.modules)


def _stays_inside(probe: Any) -> bool:
    return probe.target.stays and probe.target.is_inside


def _first(graph: fx.Graph) -> fx.Node:
    """The first node that is not an input."""
    return next(node for node in graph.nodes if node.op != "placeholder")
