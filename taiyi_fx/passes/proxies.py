"""Proxies that keep in-place operators in place and refuse to be taken for text."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from torch import fx
from torch.fx.proxy import Attribute

from taiyi_fx.passes.faithful import Unfaithful

_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
IN_PLACE_OPERATORS = frozenset(getattr(operator, name) for name in _IN_PLACE.split())


_IN_TUPLES = frozenset("chunk size split tensor_split unbind".split())
"""What these calls return is taken apart by its items."""
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


def _refuse_value(proxy: fx.Proxy, *_: Any) -> Any:
    raise Unfaithful(getattr(proxy.tracer, "current", ""), "turns a value into a text or a key")


_refuse: Any = _refuse_value


class InPlaceProxy(fx.Proxy):
    """A proxy that records ``x += y`` as the in-place operation that it is.

    As a text or a key, a proxy says something else than the value would: both are refused.
    """

    __str__ = __format__ = __hash__ = _refuse

    def __getattr__(self, k: str) -> Attribute:
        return InPlaceAttribute(self, k)

    def __iter__(self) -> Iterator[fx.Proxy]:
        count = _unpacks_into(sys._getframe(1))
        if count is None:
            return self.tracer.iter(self)
        parts: Any = self
        if not _is_in_tuple(self.node):
            parts = self.tracer.create_proxy("call_function", items_of, (self, count), {})
        return (parts[i] for i in range(count))


class InPlaceAttribute(Attribute):
    """An attribute of such a proxy."""

    __str__ = __format__ = __hash__ = _refuse
    __iter__ = InPlaceProxy.__iter__


def _is_in_tuple(node: fx.Node) -> bool:
    if node.target is getattr:
        return node.args[1] == "shape"
    return node.op in _CALLS and getattr(node.target, "__name__", node.target) in _IN_TUPLES


def _unpacks_into(frame: FrameType) -> int | None:
    """Into how many names a frame just now unpacks a value, if that is what it does."""
    instructions = dis.get_instructions(frame.f_code)
    now = next((each for each in instructions if each.offset == frame.f_lasti), None)
    return now.arg if now is not None and now.opname == "UNPACK_SEQUENCE" else None


def _record(function: Any) -> Any:
    def in_place(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return in_place


for _operator in IN_PLACE_OPERATORS:
    setattr(InPlaceProxy, f"__{_operator.__name__}__", _record(_operator))
