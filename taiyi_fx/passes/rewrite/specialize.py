"""The graph for one set of due readings: probes for these, nothing for the others."""

from __future__ import annotations

import copy

from torch import fx, nn

from taiyi_fx.passes.capture.modules import is_torchs
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.fresh import is_torchs_call
from taiyi_fx.passes.rewrite.insert_probes import is_probe, set_slots


def specialize(graph: fx.Graph, context: Context) -> fx.Graph:
    """A copy of a probed graph in which only due readings are made."""
    graph = copy.deepcopy(graph)
    for node in list(graph.nodes):
        if is_probe(node):
            probe = node.target
            kept = [slot for slot in probe.slots if _is_due(slot, context)]
            ends = node.meta.get("ends", ())
            node.meta["ends"] = tuple(slot for slot in ends if _is_due(slot, context))
            set_slots(graph, node, probe.__name__, kept, probe.board)
    is_known = _known(graph, context.part)
    for node in graph.nodes:
        if is_probe(node):
            node.target.stays = node.meta.get("stays", False)
            is_returned = node.meta.get("is_returned", True)
            node.target.is_inside = not is_returned and all(is_known[user] for user in node.users)
    _note_what_follows(graph, is_known)
    return graph


def _note_what_follows(graph: fx.Graph, is_known: dict[fx.Node, bool]) -> None:
    """Notes at each probe if only operations of torch's own follow, which run no backward."""
    are_known = True
    for node in reversed(graph.nodes):
        if is_probe(node):
            node.target.may_wait = are_known
        elif node.op.startswith("call_"):
            are_known &= is_known[node] and node.target != "backward"


def _known(graph: fx.Graph, part: nn.Module) -> dict[fx.Node, bool]:
    """By node, True if it is torch's own and so puts no hooks on its inputs."""
    known: dict[fx.Node, bool] = {}
    for node in reversed(graph.nodes):
        if is_probe(node):
            known[node] = all(known[user] for user in node.users)
        elif node.op == "call_module":
            module = submodule(part, str(node.target))
            known[node] = is_torchs(module) and not module._modules
        else:
            known[node] = is_torchs_call(node)
    return known


def is_not_due(node: fx.Node, context: Context) -> bool:
    """True if a node is a probe with a reading that is not due."""
    probe = node.target
    slots = (*probe.slots, *probe.ends) if isinstance(probe, Probe) else ()
    return not all(_is_due(slot, context) for slot in slots)


def _is_due(slot: Slot, context: Context) -> bool:
    return (slot.module, slot.reading) in context.due
