"""Assigns values to names: one, or several at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable
from typing import Any

from torch import fx

from taiyi_fx.passes.capture.containers import items
from taiyi_fx.passes.capture.frame import Frame
from taiyi_fx.passes.capture.values import Flow, Known, Refused, Value

_IN_TUPLES = frozenset("chunk size split tensor_split unbind".split())
"""Calls that return tuples, which are unpacked item by item."""
_CALLS = ("call_function", "call_method")


def items_of(value: Iterable[Any], count: int) -> tuple[Any, ...]:
    """``a, b = value`` as Python does it: a tensor by `torch.unbind`, a dictionary by its keys.

    Raises:
        ValueError: There are more or fewer than ``count``.
    """
    parts = tuple(value)
    if len(parts) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    if len(parts) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(parts)})")
    return parts


def bind(frame: Frame, target: ast.expr, value: Value) -> None:
    """Assigns a value to a name, or its parts to one each.

    Raises:
        Refused: The target is not a name, or a tuple or list of names.
    """
    if isinstance(target, ast.Name):
        frame.local[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for name, part in zip(target.elts, _parts(frame, target, value), strict=True):
            bind(frame, name, part)
    else:
        raise Refused(f"changes `{ast.unparse(target)}`")


def _parts(frame: Frame, target: ast.Tuple | ast.List, value: Value) -> list[Value]:
    count = len(target.elts)
    if any(isinstance(name, ast.Starred) for name in target.elts):
        raise Refused(f"unpacks into `{ast.unparse(target)}`")
    if isinstance(value, Flow):
        return _of_flow(frame, value, count)
    parts = list(items(frame.writer, value))
    if len(parts) != count:
        raise Refused(f"unpacks {len(parts)} values into {count}")
    return parts


def _of_flow(frame: Frame, value: Flow, count: int) -> list[Value]:
    writer = frame.writer
    if not _is_in_tuple(value.node):
        value = writer.record("call_function", items_of, (value, Known(count)))
    return [
        writer.record("call_function", operator.getitem, (value, Known(i))) for i in range(count)
    ]


def _is_in_tuple(node: fx.Node | None) -> bool:
    if node is None:
        return True
    if node.target is getattr:
        return node.args[1] == "shape"
    return node.op in _CALLS and getattr(node.target, "__name__", node.target) in _IN_TUPLES
