"""Calls of torch's Python functions as torch hands them on, with the arguments it spells out.

A trace of torch.fx has them so, and patterns that are looked for in graphs are such traces.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

from torch import fx
from torch.fx.node import map_arg


class _Flowing:
    """Stands for what flows in; torch hands a call with one on, instead of making it."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _HandedOn(func, args, kwargs or {})


class _HandedOn:
    def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs


def as_dispatched(target: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call of one of torch's Python functions as torch hands them on."""
    if not _hands_on(target):
        return args, kwargs
    given, named = map_arg((args, kwargs), cast(Any, _Flowing))
    try:
        made = target(*given, **named)
    except Exception:  # noqa: BLE001 - the call itself says so, when it is made
        return args, kwargs
    if not isinstance(made, _HandedOn) or made.function is not target:
        return args, kwargs
    return _nodes_of(tuple(made.args)), _nodes_of(dict(made.kwargs))


def _hands_on(target: Any) -> bool:
    is_torchs = (getattr(target, "__module__", None) or "").startswith("torch")
    names = target.__code__.co_names if isinstance(target, FunctionType) else ()
    return is_torchs and "handle_torch_function" in names


def _nodes_of(value: Any) -> Any:
    if isinstance(value, _Flowing):
        return value.node
    if isinstance(value, (tuple, list)):
        return type(value)(map(_nodes_of, value))
    if isinstance(value, dict):
        return {name: _nodes_of(part) for name, part in value.items()}
    return value
