"""Lowers probes to fast functions or, for compiled code, to calls with constants."""

from __future__ import annotations

from typing import Any

from torch import fx

from taiyi_fx.passes.ir import GRADIENT_PORTS
from taiyi_fx.passes.probes.compiled import READ_BY, here_on, room_of
from taiyi_fx.passes.probes.compiling import take_operations
from taiyi_fx.passes.probes.modes import with_modes_off
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.insert_probes import is_probe


def lower_probes(graph: fx.Graph, context: Context) -> fx.Graph:
    """Replaces each probe by its fast function, in place.

    In a graph that is to be compiled it becomes a call with constants, which need no guards.
    """
    if not context.is_compiled:
        for node in graph.nodes:
            if is_probe(node):
                fast = node.target.fast_path()
                node.target = with_modes_off(fast) if context.are_modes_on else fast
        return graph
    take_operations()
    probes = [node for node in graph.nodes if is_probe(node)]
    if any(node.target.slots for node in probes):
        gradients = sum(reading.site.port in GRADIENT_PORTS for _, reading in context.due)
        with graph.inserting_before(_first(graph)):
            here = graph.call_function(here_on(context.table.board))
        for node in probes:
            if node.target.slots:
                _lower(graph, node, here, room_of(gradients))
    for node in probes:
        graph.erase_node(node)  # one without slots is the end of a call, which is not needed there
    return graph


def _lower(graph: fx.Graph, probe: Any, here: fx.Node, room: int) -> None:  # fx's nodes are untyped
    """Puts a call for each step of a probe in front of it, and the last in place of its uses."""
    value, *rest = probe.args
    given = rest[0] if rest else None
    with graph.inserting_before(probe):
        for what, aliasing, pick, reader in probe.target.steps():
            args = (here, value, given, aliasing, pick, reader, room)
            value = graph.call_function(READ_BY[what], args)
            value.meta.update(probe.meta)
    probe.replace_all_uses_with(value)


def _first(graph: fx.Graph) -> fx.Node:
    """The first node that is not an input."""
    return next(node for node in graph.nodes if node.op != "placeholder")
