"""The values of Python's expressions, each by the rule of its form, in Python's order."""

# This is an abstract interpreter. Each expression has one of three kinds of values:
#
# - `Known`: an object that guards say is there. Operators of known simple values are computed at
#   once, as in `self.scale * 2`.
# - a list, tuple, dictionary or slice that the forward makes: the same Python object here, with
#   values in it. Appending to it or taking an item of it is simply done.
# - `Flow`: a forward's input, or anything computed from one. Nothing is known of it, it is only
#   written into the graph. A question about it that Python would answer (truth, identity, type)
#   is refused.
#
# The rules follow Python's order of evaluation exactly, because nodes with effects (in-place
# operations, random numbers) have to be in the graph in the order in which Python runs them. A form
# that has no rule is refused: the forward then stays Python.
from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.capture.calls import call
from taiyi_fx.passes.capture.containers import Lazy, item, items
from taiyi_fx.passes.capture.frame import Frame
from taiyi_fx.passes.capture.lookup import attribute, of_class, variable
from taiyi_fx.passes.capture.operators import BINARY, COMPARISON, UNARY
from taiyi_fx.passes.capture.pure import binary, computed, truth
from taiyi_fx.passes.capture.unpacking import bind
from taiyi_fx.passes.capture.values import (
    FIXED,
    Flow,
    Known,
    Method,
    Refused,
    Value,
    flows,
    known,
    known_simple,
)


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """The value of an expression.

    Raises:
        Refused: It has no rule, or needs a value that is not known.
    """
    frame.line = node.lineno
    rule = _RULES.get(type(node))
    if rule is None:
        raise Refused(f"uses `{ast.unparse(node)[:60]}`")
    return rule(frame, node)


def is_true(frame: Frame, node: ast.expr) -> bool:
    """True if an expression is true."""
    value = evaluate(frame, node)
    frame.line = node.lineno
    return truth(frame.writer, value)


def _name(frame: Frame, node: ast.Name) -> Value:
    if node.id in frame.local:
        return frame.local[node.id]
    code = frame.function.__code__
    if node.id in code.co_varnames or node.id in code.co_cellvars:
        raise Refused(f"reads {node.id!r} before it is set")
    return variable(frame.writer, frame.function, node.id)


def _elements(frame: Frame, nodes: list[ast.expr]) -> list[Value]:
    found: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found.extend(items(frame.writer, evaluate(frame, node.value)))
        else:
            found.append(evaluate(frame, node))
    return found


def _dictionary(frame: Frame, node: ast.Dict) -> Value:
    found: dict[Any, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(_mapping(evaluate(frame, value)))
        else:
            made = known_simple(evaluate(frame, key), "makes a key of")
            found[made] = evaluate(frame, value)
    return found


def _mapping(value: Value) -> dict[Any, Value]:
    if isinstance(value, dict):
        return value
    raise Refused("unpacks by `**` what is not a dictionary that it made")


def _text(frame: Frame, node: ast.JoinedStr) -> Value:
    parts = [_piece(frame, part) for part in node.values]
    if any(isinstance(part, Flow) for part in parts):
        return frame.writer.record("call_function", joined_text, parts)
    return Known("".join(part.value for part in parts))


def joined_text(*parts: Any) -> str:
    """A text of several values, as ``f"{a}{b}"`` makes it."""
    return "".join(map(format, parts))


def _piece(frame: Frame, part: ast.expr) -> Value:
    if not isinstance(part, ast.FormattedValue):
        return evaluate(frame, part)
    value = evaluate(frame, part.value)
    spec = evaluate(frame, part.format_spec) if part.format_spec else Known("")
    if isinstance(value, Flow):
        if part.conversion != -1 or part.format_spec:
            raise Refused("formats a value with a conversion or a format of its own")
        return value
    found = known_simple(value, "makes a text of")
    change = {-1: lambda x: x, 115: str, 114: repr, 97: ascii}[part.conversion]
    return Known(format(change(found), known_simple(spec, "formats by")))


def _choice(frame: Frame, node: ast.IfExp) -> Value:
    return evaluate(frame, node.body if is_true(frame, node.test) else node.orelse)


def _either(frame: Frame, node: ast.BoolOp) -> Value:
    *first, last = node.values
    for part in first:
        value = evaluate(frame, part)
        if truth(frame.writer, value) == isinstance(node.op, ast.Or):
            return value
    return evaluate(frame, last)


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return Known(not is_true(frame, node.operand))
    value, function = evaluate(frame, node.operand), UNARY[type(node.op)]
    if isinstance(value, Flow):
        return frame.writer.record("call_function", function, (value,))
    return computed(function, value)


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    left = evaluate(frame, node.left)
    right = evaluate(frame, node.right)
    frame.line = node.lineno
    return binary(frame.writer, BINARY[type(node.op)], left, right)


def _comparison(frame: Frame, node: ast.Compare) -> Value:
    left, made = evaluate(frame, node.left), Known(True)
    for op, each in zip(node.ops, node.comparators, strict=True):
        right = evaluate(frame, each)
        made = _compared(frame, op, left, right, node)
        if len(node.ops) > 1 and not truth(frame.writer, made):
            return made
        left = right
    return made


def _compared(frame: Frame, op: ast.cmpop, a: Value, b: Value, node: ast.Compare) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return Known(_are_one(a, b, node) == isinstance(op, ast.Is))
    if isinstance(op, (ast.In, ast.NotIn)):
        return Known(_is_in(a, b, node) == isinstance(op, ast.In))
    function = COMPARISON[type(op)]
    if isinstance(a, Flow) or isinstance(b, Flow):
        return frame.writer.record("call_function", function, (a, b))
    return computed(function, a, b)


def _are_one(a: Value, b: Value, node: ast.Compare) -> bool:
    for one, other in ((a, b), (b, a)):
        if isinstance(other, Known) and other.value is None:
            if isinstance(one, Flow) and not one.is_tensor:
                break
            return isinstance(one, Known) and one.value is None
    if not any(isinstance(v, Flow) for v in (a, b)) and (_is_fixed(a) or _is_fixed(b)):
        return known(a, "compares") is known(b, "compares")
    raise Refused(f"tests the identity of a value, `{ast.unparse(node)}`")


def _is_fixed(value: Value) -> bool:
    """True if such a value may be compared by identity."""
    fixed = (bool, type(None), nn.Module, torch.dtype, type(...), *FIXED)
    return isinstance(value, Known) and isinstance(value.value, fixed)


def _is_in(a: Value, b: Value, node: ast.Compare) -> bool:
    if isinstance(a, Flow) or isinstance(b, Flow):
        raise Refused(f"compares what flows in, `{ast.unparse(node)}`")
    if isinstance(b, Known) and isinstance(b.value, nn.Module):
        raise Refused(f"looks into a module, `{ast.unparse(node)}`")
    key = known_simple(a, "looks for")
    if isinstance(b, dict):
        return key in b
    if flows(b):
        raise Refused(f"compares what flows in, `{ast.unparse(node)}`")
    return key in known_simple(b, "looks into")


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    owner = evaluate(frame, node.value)
    return taken(frame, owner, evaluate(frame, node.slice))


def taken(frame: Frame, owner: Value, key: Value) -> Value:
    """An item of a value."""
    if isinstance(owner, Flow):
        return frame.writer.record("call_function", operator.getitem, (owner, key))
    return item(frame.writer, owner, key)


def _slice(frame: Frame, node: ast.Slice) -> Value:
    bounds = (node.lower, node.upper, node.step)
    return slice(*(Known(None) if b is None else evaluate(frame, b) for b in bounds))


def _comprehended(frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> Iterator[Value]:
    """The elements, each when it is needed; variables of a comprehension are its own."""
    if len(node.generators) != 1 or node.generators[0].is_async:
        raise Refused("uses a nested or asynchronous comprehension")
    (generator,) = node.generators
    # The iterable is evaluated at once, outside.
    return _through(frame.nested(), items(frame.writer, evaluate(frame, generator.iter)), node)


def _through(
    frame: Frame, found: Iterable[Value], node: ast.ListComp | ast.GeneratorExp
) -> Iterator[Value]:
    (generator,) = node.generators
    for each in found:
        bind(frame, generator.target, each)
        if all(is_true(frame, test) for test in generator.ifs):
            yield evaluate(frame, node.elt)


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    if _is_super(node.value):
        return _parents(frame, node)
    owner = evaluate(frame, node.value)
    frame.line = node.lineno
    return attribute(frame.writer, owner, node.attr, ast.unparse(node))


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _parents(frame: Frame, node: ast.Attribute) -> Value:
    """The method of ``super()`` by a name: that of the next class after the function's own."""
    assert isinstance(node.value, ast.Call)
    if known(evaluate(frame, node.value.func), "calls") is not super:
        raise Refused("uses another `super`")
    first = frame.function.__code__.co_varnames[0]
    if node.value.args:
        home, owner = (known(evaluate(frame, each), "asks for") for each in node.value.args)
    else:
        home = known(variable(frame.writer, frame.function, "__class__"), "asks for")
        owner = known(frame.local[first], "asks for")
    if not isinstance(owner, nn.Module) or home not in type(owner).__mro__:
        raise Refused("uses `super` of what is not a module")
    return _behind(frame, owner, home, node.attr)


def _behind(frame: Frame, owner: nn.Module, home: type, name: str) -> Value:
    order, guards = type(owner).__mro__, frame.writer.guards
    for kind in order[order.index(home) + 1 :]:
        guards.require(kind, name, of_class(kind, name, f"super().{name}"))
        if name in vars(kind):
            function = vars(kind)[name]
            if isinstance(function, FunctionType):
                return Method(Known(owner), name, function)
            break
    raise Refused(f"reads `super().{name}`")


def _call(frame: Frame, node: ast.Call) -> Value:
    function = evaluate(frame, node.func)
    if isinstance(function, Method) and function.name == "forward" and not _is_super_of(node.func):
        raise Refused(f"calls `{ast.unparse(node.func)}` directly")
    args, kwargs = _elements(frame, node.args), {}
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        kwargs.update({keyword.arg: value} if keyword.arg else _mapping(value))
    frame.line = node.lineno
    return call(frame.writer, function, args, kwargs)


def _is_super_of(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and _is_super(node.value)


_RULES: dict[type, Callable[[Frame, Any], Value]] = {
    ast.Constant: lambda frame, node: Known(node.value),
    ast.Name: _name,
    ast.Tuple: lambda frame, node: tuple(_elements(frame, node.elts)),
    ast.List: lambda frame, node: _elements(frame, node.elts),
    ast.Dict: _dictionary,
    ast.JoinedStr: _text,
    ast.IfExp: _choice,
    ast.BoolOp: _either,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _comparison,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.ListComp: lambda frame, node: list(_comprehended(frame, node)),
    ast.GeneratorExp: lambda frame, node: Lazy(_comprehended(frame, node)),
    ast.Attribute: _attribute,
    ast.Call: _call,
}
