"""The effects of Python's statements, each by the rule of its form."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from taiyi_fx.passes.capture.containers import items
from taiyi_fx.passes.capture.expressions import evaluate, is_true, taken
from taiyi_fx.passes.capture.frame import Frame
from taiyi_fx.passes.capture.operators import IN_PLACE
from taiyi_fx.passes.capture.pure import binary
from taiyi_fx.passes.capture.unpacking import bind
from taiyi_fx.passes.capture.values import Flow, Known, Refused, Value, known_simple


class Return(Exception):
    """A function returns.

    Attributes:
        value: The value returned.
    """

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def run(frame: Frame, body: list[ast.stmt]) -> None:
    """Interprets statements in order.

    Raises:
        Return: One is a ``return``.
        Refused: One has no rule, or needs a value that is not known.
    """
    for statement in body:
        frame.writer.count_step()
        frame.line = statement.lineno
        rule = _RULES.get(type(statement))
        if rule is None:
            head = ast.unparse(statement).splitlines()[0].rstrip(":")
            raise Refused(f"uses `{head[:60]}`")
        rule(frame, statement)


def _return(frame: Frame, statement: ast.Return) -> None:
    raise Return(Known(None) if statement.value is None else evaluate(frame, statement.value))


def _assign(frame: Frame, statement: ast.Assign) -> None:
    value = evaluate(frame, statement.value)
    for target in statement.targets:
        _store(frame, target, value)


def _annotated(frame: Frame, statement: ast.AnnAssign) -> None:
    if statement.value is not None:
        _store(frame, statement.target, evaluate(frame, statement.value))


def _store(frame: Frame, target: ast.expr, value: Value) -> None:
    frame.line = target.lineno
    if isinstance(target, ast.Subscript):
        owner = evaluate(frame, target.value)
        _put(frame, owner, evaluate(frame, target.slice), value, target)
    else:
        bind(frame, target, value)


def _put(frame: Frame, owner: Value, key: Value, value: Value, target: ast.expr) -> None:
    if isinstance(owner, Flow):
        frame.writer.record("call_function", operator.setitem, (owner, key, value))
        return
    if not isinstance(owner, (list, dict)):
        raise Refused(f"changes `{ast.unparse(target)}`")
    index = known_simple(key, "indexes by")
    owner[index] = list(items(frame.writer, value)) if type(index) is slice else value


def _augment(frame: Frame, statement: ast.AugAssign) -> None:
    target, function = statement.target, IN_PLACE[type(statement.op)]
    if isinstance(target, ast.Name):
        before = evaluate(frame, ast.copy_location(ast.Name(target.id, ast.Load()), target))
        value = evaluate(frame, statement.value)
        bind(frame, target, binary(frame.writer, function, before, value))
    elif isinstance(target, ast.Subscript):
        owner = evaluate(frame, target.value)
        key = evaluate(frame, target.slice)
        before = taken(frame, owner, key)
        value = binary(frame.writer, function, before, evaluate(frame, statement.value))
        _put(frame, owner, key, value, target)
    else:
        raise Refused(f"changes `{ast.unparse(target)}`")


def _if(frame: Frame, statement: ast.If) -> None:
    run(frame, statement.body if is_true(frame, statement.test) else statement.orelse)


def _assert(frame: Frame, statement: ast.Assert) -> None:
    if not is_true(frame, statement.test):
        raise Refused("asserts a condition that is false")


def _for(frame: Frame, statement: ast.For) -> None:
    if statement.orelse:
        raise Refused("uses `else` after a loop")
    for each in items(frame.writer, evaluate(frame, statement.iter)):
        bind(frame, statement.target, each)
        run(frame, statement.body)


_RULES: dict[type, Callable[[Frame, Any], None]] = {
    ast.Return: _return,
    ast.Expr: lambda frame, statement: evaluate(frame, statement.value),
    ast.Pass: lambda frame, statement: None,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augment,
    ast.If: _if,
    ast.Assert: _assert,
    ast.For: _for,
}
