"""Marks: nodes of a traced graph at which a target's call begins and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from torch import fx

from taiyi_fx.passes.structure import Call


def enter(value: Any, module: str, call: int) -> Any:
    """A mark at the input of a target's call; the insertion pass turns it into a probe."""
    return value


def leave(value: Any, module: str, call: int) -> Any:
    """A mark at the output of a target's call; the insertion pass turns it into a probe."""
    return value


def pack(args: tuple[Any, ...], kwargs: dict[str, Any], function: str = "") -> Call:
    """A call's arguments as one value, so that a mark can stand at all of them."""
    return Call(tuple(args), dict(kwargs), function)


def unpack(value: Any, path: tuple[Any, ...]) -> Any:
    """One part of a structure that passed a mark."""
    for step in path:
        value = getattr(value, step[1:]) if _is_field(step) else value[step]
    return value


def _is_field(step: Any) -> bool:
    return step in (".args", ".kwargs")


def is_mark(node: fx.Node) -> bool:
    """True if a node is a mark."""
    return node.op == "call_function" and node.target in (enter, leave)


def part_of(value: Any, path: Any) -> Any:
    """The part of a marked value at a path, as a graph has it: the result of an `unpack`."""
    if isinstance(value, fx.Node) and value.target is pack:
        value = {".args": value.args[0], ".kwargs": value.args[1]}
    for step in path:
        value = value[step]  # pyright: ignore[reportIndexIssue]
    return value


def behind_marks(value: Any) -> Iterator[fx.Node]:
    """The nodes that made the parts of a value in a marked graph, in order; marks are skipped."""
    if isinstance(value, fx.Node):
        if is_mark(value):
            yield from behind_marks(value.args[0])
        elif value.target is unpack:
            mark, path = cast(tuple[fx.Node, Any], value.args)
            yield from behind_marks(part_of(mark.args[0], path))
        else:
            yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from behind_marks(part)


def mark_call(
    graph: fx.Graph, args: Any, kwargs: Any, site: str, call: int, function: str = ""
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, after a mark; of a function's with its name."""
    if len(args) == 1 and not kwargs and isinstance(args[0], fx.Node):
        return (mark_value(graph, enter, args[0], site, call),), kwargs
    packed = graph.call_function(pack, (tuple(args), kwargs, function))
    marked = graph.call_function(enter, (packed, site, call))
    args = tuple(_unpacked(graph, marked, a, (".args", i)) for i, a in enumerate(args))
    return args, {k: _unpacked(graph, marked, v, (".kwargs", k)) for k, v in kwargs.items()}


def mark_value(graph: fx.Graph, mark: Any, value: Any, site: str, call: int) -> Any:
    """A value of any structure, after a mark."""
    marked = graph.call_function(mark, (value, site, call))
    return marked if isinstance(value, fx.Node) else _unpacked(graph, marked, value, ())


def _unpacked(graph: fx.Graph, marked: fx.Node, value: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(value, fx.Node):
        return graph.call_function(unpack, (marked, path))
    if type(value) in (tuple, list):
        parts = (_unpacked(graph, marked, v, (*path, i)) for i, v in enumerate(value))
        return type(value)(parts)
    if type(value) is dict:
        return {k: _unpacked(graph, marked, v, (*path, k)) for k, v in value.items()}
    return value


def mark_root(graph: fx.Graph, name: str) -> None:
    """Marks the call of the module that a whole graph stands in for."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    following = placeholders[-1].next if placeholders else next(iter(graph.nodes))
    with graph.inserting_before(following):
        packed = graph.call_function(pack, (tuple(placeholders), {}))
        marked = graph.call_function(enter, (packed, name, 0))
        for i, node in enumerate(placeholders):
            unpacked = graph.call_function(unpack, (marked, (".args", i)))
            node.replace_all_uses_with(unpacked, delete_user_cb=lambda user: user is not packed)
    (output,) = (node for node in graph.nodes if node.op == "output")
    with graph.inserting_before(output):
        output.args = (graph.call_function(leave, (output.args[0], name, 0)),)
