"""Proxies that keep in-place operators in place and refuse to be taken for text."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx
from torch.fx.proxy import Attribute

from taiyi_fx.passes.faithful import Unfaithful

_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
IN_PLACE_OPERATORS = frozenset(getattr(operator, name) for name in _IN_PLACE.split())


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


class InPlaceAttribute(Attribute):
    """An attribute of such a proxy."""

    __str__ = __format__ = __hash__ = _refuse


def _record(function: Any) -> Any:
    def in_place(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return in_place


for _operator in IN_PLACE_OPERATORS:
    setattr(InPlaceProxy, f"__{_operator.__name__}__", _record(_operator))
