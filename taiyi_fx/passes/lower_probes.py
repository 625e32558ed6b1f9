"""Probes become calls that compiled code can hold: of constants, which nothing has to check."""

from __future__ import annotations

from torch import fx

from taiyi_fx.passes.compiled_taps import CompiledProbes
from taiyi_fx.passes.insert_probes import is_probe
from taiyi_fx.passes.slots import Board


def lower_probes(graph: fx.Graph, board: Board) -> fx.Graph:
    """Replaces each probe by a call that says in constants what the probe does, in place.

    Args:
        graph: A graph with probes.
        board: That of their slots.
    """
    probes = CompiledProbes(board)
    for node in graph.nodes:
        if is_probe(node):
            value, *given = node.args
            node.args = (value, node.target.steps(), *given)
            node.target = probes
    return graph
