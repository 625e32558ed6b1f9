"""The graph for one set of due readings: probes for these, nothing for the others."""

from __future__ import annotations

import copy

from torch import fx

from taiyi_fx.passes.insert_probes import is_probe, set_slots
from taiyi_fx.passes.ir import Due


def specialize(graph: fx.Graph, due: Due) -> fx.Graph:
    """A copy of a probed graph in which only due readings are made.

    Args:
        graph: A graph with probes.
        due: Pairs of a module's name and one of its readings.
    """
    graph = copy.deepcopy(graph)
    for node in list(graph.nodes):
        if is_probe(node):
            probe = node.target
            kept = [slot for slot in probe.slots if (slot.module, slot.reading) in due]
            set_slots(graph, node, probe.__name__, kept)
    return graph
