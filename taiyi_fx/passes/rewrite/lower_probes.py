"""Probes become calls that compiled code can hold: of constants, which nothing has to check."""

from __future__ import annotations

from torch import fx

from taiyi_fx.passes.probes.compiled_taps import CompiledProbes
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.insert_probes import is_probe


def lower_probes(graph: fx.Graph, context: Context) -> fx.Graph:
    """Replaces each probe by a call that says in constants what the probe does, in place.

    A graph that is not to be compiled stays as it is.
    """
    if not context.is_compiled:
        return graph
    probes = CompiledProbes(context.table.board)
    for node in graph.nodes:
        if is_probe(node):
            value, *given = node.args
            node.args = (value, node.target.steps(), *given)
            node.target = probes
    return graph
