"""Lowers probes to fast functions or, for compiled code, to calls with constants."""

from __future__ import annotations

from torch import fx

from taiyi_fx.passes.ir import GRADIENT_PORTS
from taiyi_fx.passes.probes.compiled import CompiledProbes
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
    gradients = sum(reading.site.port in GRADIENT_PORTS for _, reading in context.due)
    probes = CompiledProbes(context.table.board, gradients)
    for node in list(graph.nodes):
        if is_probe(node) and not node.target.slots:
            graph.erase_node(node)  # the end of a call, which is not needed there
        elif is_probe(node):
            value, *given = node.args
            node.args = (value, node.target.steps(), *given)
            node.target = probes
    return graph
