"""Calls: of modules, functions, methods and classes, each by the rule for what is called."""

from __future__ import annotations

import types
from collections import namedtuple
from typing import Any, cast

import torch
from torch import nn

from taiyi_fx.passes.capture import pure
from taiyi_fx.passes.capture.containers import call_of_children, call_of_container
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.modules import call_module
from taiyi_fx.passes.capture.torch_calls import (
    ASKED,
    NUMERIC,
    makes_new_tensor,
    takes_what_flows,
)
from taiyi_fx.passes.capture.values import FIXED, Flow, Known, Method, Refused, Value, flows, known

_MADE = namedtuple("_Any", "x").__new__.__code__.co_filename  # of no file
_LOG_USE = torch._C._log_api_usage_once  # counts a use by a name, wherever it is called


def call(
    writer: GraphWriter, function: Value, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """The result of a call.

    Raises:
        Refused: No rule says what the call does.
    """
    writer.count_step()
    if isinstance(function, Method):
        return _call_method(writer, function, args, kwargs)
    called = known(function, "calls")
    if isinstance(called, nn.Module):
        return call_module(writer, called, args, kwargs)
    if not issubclass(type(called), FIXED):
        raise Refused(f"calls a {type(called).__name__}")
    if id(called) in ASKED:
        writer.guards.asked[called] = False
        return Known(False)
    return _call_function(writer, called, args, kwargs)


def _call_function(writer: GraphWriter, called: Any, args: Any, kwargs: Any) -> Value:
    given, key = (*args, *kwargs.values()), id(called)
    if makes_new_tensor(called) or called is _LOG_USE:
        return writer.record("call_function", called, args, kwargs)
    takes_it = key not in NUMERIC or all(isinstance(a, (Flow, Known)) for a in given)
    if takes_what_flows(called) and takes_it and any(map(flows, given)):
        return writer.record("call_function", called, args, kwargs)
    if called is torch._assert and len(args) == 2 and pure.truth(writer, args[0]):
        return Known(None)
    if key in pure.RULES:
        return pure.RULES[key](writer, *args, **kwargs)
    if key in pure.COMPUTED:
        if kwargs:
            raise Refused(f"calls `{called.__name__}` with keywords")
        return pure.computed(called, *args)
    if isinstance(called, types.FunctionType) and not takes_what_flows(called):
        return writer.inline(called, args, kwargs)
    if _is_named_tuple(called):
        return called(*args, **kwargs)
    raise Refused(_why_not(called))


def _why_not(called: Any) -> str:
    name = getattr(called, "__name__", repr(called))
    home = getattr(called, "__module__", None) or ""
    if getattr(torch, name, None) is called or takes_what_flows(called):
        return f"calls torch's {name} without a value that flows in"
    owner = getattr(called, "__self__", None)
    if owner is not None and type(owner) is not types.ModuleType:
        return f"calls `{name}` of a {type(owner).__name__}"
    return f"calls `{name}`" if home in ("builtins", "") else f"calls `{home}.{name}`"


def _is_named_tuple(called: Any) -> bool:
    """True for a class that `collections.namedtuple` made, or `typing.NamedTuple`."""
    if not isinstance(called, type) or called.__mro__[1:] != (tuple, object):
        return False
    new = vars(called).get("__new__")
    code = getattr(getattr(new, "__func__", new), "__code__", None)
    return code is not None and code.co_filename == _MADE


def _call_method(writer: GraphWriter, method: Method, args: Any, kwargs: Any) -> Value:
    owner = method.owner
    if isinstance(owner, Flow):
        return writer.record("call_method", method.name, (owner, *args), kwargs)
    if isinstance(owner, Known) and isinstance(owner.value, nn.Module):
        return _call_own_method(writer, method, args, kwargs)
    if kwargs:
        raise Refused(f"calls `{method.name}` with keywords")
    return call_of_container(writer, method, args)


def _call_own_method(writer: GraphWriter, method: Method, args: Any, kwargs: Any) -> Value:
    function = cast(types.FunctionType, method.function)
    found = call_of_children(writer, method) if not (args or kwargs) else None
    if found is not None:
        return found
    if vars(nn.Module).get(method.name) is function:
        raise Refused(f"calls a method that changes or reads the module's state, `{method.name}`")
    return writer.inline(function, [method.owner, *args], kwargs)
