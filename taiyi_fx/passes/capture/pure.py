"""Python's own functions, on values that are known or that a forward made."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import nn

from taiyi_fx.passes.capture.containers import Lazy, items, length
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.guards import MISSING
from taiyi_fx.passes.capture.lookup import attribute, of_class
from taiyi_fx.passes.capture.torch_calls import MATH, by_identity
from taiyi_fx.passes.capture.values import (
    FIXED,
    Flow,
    Known,
    Refused,
    Value,
    flows,
    is_simple,
    known,
    known_simple,
)

Rule = Callable[..., Value]
_ZERO, _FALSE = Known(0), Known(False)


def truth(writer: GraphWriter, value: Value) -> bool:
    """The truth value of a value.

    Raises:
        Refused: It flows.
    """
    if isinstance(value, (list, tuple, dict)):
        return bool(value)
    if isinstance(value, Flow):
        raise Refused("branches on a tensor's data or shape")
    found = known(value, "takes the truth value of")
    if is_simple(found) or isinstance(found, (list, dict, *FIXED)):
        return bool(found)
    raise Refused(f"takes the truth value of a {type(found).__name__}")


def computed(function: Callable[..., Any], *values: Value) -> Known:
    """The result of one of Python's operators or functions, on values that are known."""
    given = [known_simple(v, f"computes `{function.__name__}` of") for v in values]
    return Known(function(*given))


def is_instance(writer: GraphWriter, value: Value, kinds: Value) -> bool:
    """True if a value is of one of some classes; of a module, under a guard on its class."""
    found = known(kinds, "asks for")
    every = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(kind, type) and _is_plain_class(kind) for kind in every):
        raise Refused("tests a type that has its own `__instancecheck__`")
    if isinstance(value, Flow):
        raise Refused("tests the type of a value")
    held = value.value if isinstance(value, Known) else value
    if isinstance(held, nn.Module):
        writer.guards.modules[writer.name_of(held)] = type(held)
    return isinstance(held, found)


def _is_plain_class(kind: type) -> bool:
    return type(kind).__instancecheck__ is type.__instancecheck__ or kind.__module__ in _KNOWN_TESTS


_KNOWN_TESTS = ("torch", "torch.nn.parameter", "collections.abc", "numbers")


def _has(writer: GraphWriter, owner: Value, name: Value) -> Value:
    if not (isinstance(owner, Known) and isinstance(owner.value, nn.Module)):
        raise Refused("uses `hasattr` on what is not a module")
    word = known_simple(name, "reads an attribute by the name")
    module, kind = owner.value, type(owner.value)
    spaces = [vars(module), *(vars(module)[s] for s in ("_parameters", "_buffers", "_modules"))]
    if of_class(kind, word, word) is MISSING and not any(word in space for space in spaces):
        raise Refused(f"tests for an attribute that does not exist, {word!r}")
    attribute(writer, owner, word, f"hasattr(..., {word!r})")
    return Known(True)


def _get(writer: GraphWriter, owner: Value, name: Value, *default: Value) -> Value:
    word = known_simple(name, "reads an attribute by the name")
    if not isinstance(word, str):
        raise Refused("reads an attribute by a name that is not a string")
    if default:
        _has(writer, owner, name)
    return attribute(writer, owner, word, f"getattr(..., {word!r})")


def _zip(writer: GraphWriter, *values: Value, strict: Value = _FALSE) -> Value:
    # One at a time: a forward may append to a list while it iterates over it.
    return Lazy(zip(*(items(writer, v) for v in values), strict=truth(writer, strict)))


def _enumerate(writer: GraphWriter, value: Value, start: Value = _ZERO) -> Value:
    first = known_simple(start, "counts from")
    return Lazy((Known(i), v) for i, v in enumerate(items(writer, value), first))


def _reversed(writer: GraphWriter, value: Value) -> Value:
    found = items(writer, value)
    return Lazy(reversed(found if isinstance(found, (list, tuple)) else list(found)))


def _sum(writer: GraphWriter, value: Value, start: Value = _ZERO) -> Value:
    for each in items(writer, value):
        start = binary(writer, operator.add, start, each)
    return start


def _any(writer: GraphWriter, value: Value) -> Value:
    return Known(any(truth(writer, each) for each in items(writer, value)))


RULES: dict[int, Rule] = {
    id(function): rule
    for function, rule in {
        len: lambda r, v: Known(length(r, v)),
        list: lambda r, v=(): list(items(r, v)),
        tuple: lambda r, v=(): tuple(items(r, v)),
        zip: _zip,
        enumerate: _enumerate,
        reversed: _reversed,
        sum: _sum,
        any: _any,
        bool: lambda r, v: Known(truth(r, v)),
        isinstance: lambda r, v, kinds: Known(is_instance(r, v, kinds)),
        hasattr: _has,
        getattr: _get,
    }.items()
}
"""Rules for functions of Python's, by their identity."""

COMPUTED = MATH | by_identity(
    (range, int, float, str, complex, min, max, abs, round, divmod, pow, sorted, bytes)
)
"""Functions of Python's without side effects."""


def binary(writer: GraphWriter, function: Callable[..., Any], a: Value, b: Value) -> Value:
    """The result of an operator of two values."""
    held = a.value if isinstance(a, Known) else a
    if function in _IN_PLACE and isinstance(held, (list, dict)):
        return _extended(writer, function, a, b)
    if isinstance(a, Flow) or isinstance(b, Flow):
        return writer.record("call_function", function, (a, b))
    kinds = [type(v.value) if isinstance(v, Known) else type(v) for v in (a, b)]
    if function in (operator.add, operator.iadd) and kinds in ([list, list], [tuple, tuple]):
        return kinds[0]([*items(writer, a), *items(writer, b)])
    if flows(a) or flows(b):
        raise Refused("computes with a list")
    return computed(function, a, b)


_IN_PLACE = (operator.iadd, operator.imul, operator.ior)


def _extended(writer: GraphWriter, function: Callable[..., Any], a: Value, b: Value) -> Value:
    # Other names of the list see the change, too.
    if function is not operator.iadd or not isinstance(a, list):
        raise Refused("changes in place a list or dictionary that it did not make, or not by `+=`")
    a.extend(items(writer, b))
    return a
