"""Marks become probes, or nothing where a call has no reading."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from torch import fx
from torch.fx.node import map_aggregate

from taiyi_fx.passes.ir import Mode, Port
from taiyi_fx.passes.marks import enter, is_mark, leave, pack, unpack
from taiyi_fx.passes.probe import Probe
from taiyi_fx.passes.slots import Slot, SlotTable

PORTS: dict[Any, tuple[Port, ...]] = {
    enter: ("input", "input_grad"),
    leave: ("output", "output_grad"),
}


def insert_probes(
    graph: fx.Graph, table: SlotTable, mode: Mode, starts: Mapping[str, int]
) -> fx.Graph:
    """Replaces each mark by a probe with the slots of its call, in place.

    A probe without gradient readings hands its value on, but nothing has to wait for it.
    """
    for node in list(graph.nodes):
        if is_mark(node):
            value, module, call = cast(tuple[Any, str, int], node.args)
            node.args = (value, module, call + starts.get(module, 0))
            _lower(graph, node, table, mode)
    return graph


def _lower(graph: fx.Graph, mark: fx.Node, table: SlotTable, mode: Mode) -> None:
    value, module, call = cast(tuple[Any, str, int], mark.args)
    slots = [
        slot
        for reading, slot in table.at(mode, module, call).items()
        if reading.site.port in PORTS[mark.target]
    ]
    name = probe_name(mark.target, module, call)
    mark.args = (value,)
    set_slots(graph, mark, name, slots)


def set_slots(graph: fx.Graph, node: fx.Node, name: str, slots: Collection[Slot]) -> None:
    """Makes a mark or probe the probe of these slots; without any, erases it.

    Only a probe that taps a gradient stays in the path of the value.
    """
    if slots:
        node.target = Probe(name, slots)
        if node.target.gradient_slots:
            return
    _bypass(graph, node)
    if not slots:
        _erase(graph, node)


def probe_name(mark: Any, module: str, call: int) -> str:
    """How a probe is called in generated code."""
    side = "input" if mark is enter else "output"
    return f"{module or 'model'}{f'@{call}' if call else ''}.{side}"


def is_probe(node: fx.Node) -> bool:
    """Whether a node is a probe."""
    return node.op == "call_function" and isinstance(node.target, Probe)


def _erase(graph: fx.Graph, node: fx.Node) -> None:
    value = node.args[0]
    graph.erase_node(node)
    if isinstance(value, fx.Node) and value.target is pack and not value.users:
        graph.erase_node(value)


def _bypass(graph: fx.Graph, node: fx.Node) -> None:
    """Points every user of what comes out of the node at what went in."""
    value = node.args[0]
    for user in list(node.users):
        if user.target is unpack and user.op == "call_function":
            _replace(graph, user, _part(value, user.args[1]))
    if isinstance(value, fx.Node):
        node.replace_all_uses_with(value)
    elif node.users:
        (user,) = node.users  # only the output takes a whole structure
        user.args = (value,)


def _replace(graph: fx.Graph, node: fx.Node, part: Any) -> None:
    if isinstance(part, fx.Node):
        node.replace_all_uses_with(part)
    else:
        for user in list(node.users):
            user.args = map_aggregate(user.args, lambda a: part if a is node else a)
            user.kwargs = map_aggregate(user.kwargs, lambda a: part if a is node else a)
    graph.erase_node(node)


def _part(value: Any, path: Any) -> Any:
    if isinstance(value, fx.Node) and value.target is pack:
        value = {".args": value.args[0], ".kwargs": value.args[1]}
    for step in path:
        value = value[step]  # pyright: ignore[reportIndexIssue]
    return value
