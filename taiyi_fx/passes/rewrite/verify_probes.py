"""Finds the readings of a plan that a graph cannot give: calls or gradients that never come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import networkx as nx
from torch import fx, nn
from torch.fx.node import map_arg

from taiyi_fx.passes.ir import GRADIENT_PORTS, Plan
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.probes.edited import Edited, is_edit
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.rewrite.changes import called_modules, may_change_inputs
from taiyi_fx.passes.rewrite.insert_probes import is_probe

# A backward is not read in the value's path: at run time its result shows if it can come.
_TAPPED = tuple(port for port in GRADIENT_PORTS if port != "backward")
_STOPS = frozenset("detach detach_ argmax argmin item tolist".split())


def data_flow(graph: fx.Graph) -> nx.DiGraph:
    """The graph's nodes with an edge for each use of a value."""
    flow = nx.DiGraph()
    for node in graph.nodes:
        flow.add_node(node)
        # A probe's further inputs are for comparison, not data flow. An edit has only its value.
        sources = _nodes_in(node.args[:1]) if is_probe(node) else node.all_input_nodes
        flow.add_edges_from((source, node) for source in sources)
    return flow


def _nodes_in(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    map_arg(value, found.append)
    return found


def verify_probes(
    model: nn.Module, parts: Mapping[str, fx.Graph], plan: Plan, python: Mapping[str, str]
) -> dict[str, str]:
    """By module, the reason why its probes will never see something.

    Modules below a forward that stayed Python are left out: only a run can show that.

    Args:
        model: The model.
        parts: The probed graphs, by the name of the part that each stands in for.
        plan: The planned readings.
        python: Modules whose forwards stayed Python.
    """
    findings = dict(_never_called(model, parts[""], plan, python)) if "" in parts else {}
    for name, graph in parts.items():
        findings.update(_gradient_cannot_come(graph, submodule(model, name), plan))
    return findings


def _never_called(
    model: nn.Module, graph: fx.Graph, plan: Plan, python: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    called = {slot.module for n in graph.nodes if is_probe(n) for slot in n.target.slots}
    called.update(n.target.module for n in graph.nodes if is_edit(n))
    for name, target in plan.items():
        below_python = any(name.startswith(f"{parent}.") for parent in python)
        is_seen = name in called or below_python or _is_used_elsewhere(model, name)
        if target.is_at_calls and not is_seen:
            yield name, "the model's forward never calls this module"


def _is_used_elsewhere(model: nn.Module, name: str) -> bool:
    """True if another method than a forward names a module, or a module that contains it."""
    owner, held = model, name.split(".") if name else []
    for key in held:
        if any(key in code.co_names for code in _other_methods(type(owner))):
            return True
        owner = submodule(owner, key)
    return False


def _other_methods(kind: type) -> Iterator[CodeType]:
    for c in kind.__mro__:
        for name, value in vars(c).items() if not c.__module__.startswith("torch.") else ():
            if isinstance(value, FunctionType) and name not in ("__init__", "forward"):
                yield value.__code__


def _gradient_cannot_come(
    graph: fx.Graph, part: nn.Module, plan: Plan
) -> Iterator[tuple[str, str]]:
    flow = data_flow(graph)
    flow.remove_edges_from([edge for edge in flow.edges if _stops(edge[0])])
    (output,) = (node for node in graph.nodes if node.op == "output")
    modules = called_modules(graph, part)
    for node in graph.nodes:
        if may_change_inputs(node, modules) and not is_edit(node):
            # Its output may be used under another name.
            flow.add_edges_from((each, output) for each in (node, *_that_read(node)))
    reaching = nx.ancestors(flow, output)
    for node in graph.nodes:
        if node not in reaching:
            for module in _awaiting_gradient(node, plan):
                yield module, "no gradient can reach it: it does not lead to the output"


def _that_read(node: fx.Node) -> Iterator[fx.Node]:
    for user in node.users:
        if is_probe(user) or is_edit(user):
            yield user
            yield from _that_read(user)


def _awaiting_gradient(node: fx.Node, plan: Plan) -> Iterator[str]:
    if isinstance(node.target, Probe):
        for slot in node.target.slots:
            is_asked = slot.module in plan and slot.reading in plan[slot.module].readings
            if is_asked and slot.reading.site.port in _TAPPED:
                yield slot.module
    if isinstance(node.target, Edited) and node.target.gradient_changes:
        yield node.target.module


def _stops(node: fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return node.op in ("call_method", "call_function") and name in _STOPS
