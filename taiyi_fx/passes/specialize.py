"""The graph for one set of due readings: probes for these, nothing for the others."""

from __future__ import annotations

import copy

from torch import fx, nn

from taiyi_fx.passes.fresh import is_torchs, is_torchs_call
from taiyi_fx.passes.insert_probes import is_probe, set_slots
from taiyi_fx.passes.ir import Due


def specialize(graph: fx.Graph, due: Due, part: nn.Module) -> fx.Graph:
    """A copy of a probed graph in which only due readings are made.

    Args:
        graph: A graph with probes.
        due: Pairs of a module's name and one of its readings.
        part: The module that its nodes name modules from.
    """
    graph = copy.deepcopy(graph)
    for node in list(graph.nodes):
        if is_probe(node):
            probe = node.target
            kept = [slot for slot in probe.slots if (slot.module, slot.reading) in due]
            set_slots(graph, node, probe.__name__, kept)
    for node in graph.nodes:
        if is_probe(node):
            node.target.stays = node.meta.get("stays", False)
            is_returned = node.meta.get("is_returned", True)
            node.target.is_inside = not is_returned and all(
                _is_known(user, part) for user in node.users
            )
    return graph


def _is_known(user: fx.Node, part: nn.Module) -> bool:
    """Whether what uses a value is torch's own, and so hangs no hook on it."""
    if is_probe(user):
        return all(_is_known(node, part) for node in user.users)
    if user.op == "call_module":
        module = part.get_submodule(str(user.target))
        return is_torchs(module) and not module._modules
    return is_torchs_call(user)
