"""Gradients that code clears, or clips, between the backwards of one step.

Of those that are cleared the last alone counts; clipped, the sum of all is no longer theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    LOOPS,
    Loop,
    called,
    calls_in,
    has_backward,
    inner,
    loops_in,
    scopes_of,
    walked,
)

_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")


def cleared_between(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls of ``zero_grad`` in each turn with a backward, where not each turn has a step.

    As in an inner loop over parts of a batch, behind which the step comes; and where the step is in
    an ``if`` that counts.
    """
    for loop, later in _loops_of_parts(tree):
        clears = (call for node in loop.body for call in _of(node, "zero_grad"))
        yield from (call for call in clears if _whose(call) in later)


def clipped_between(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that clip all gradients in each turn with a backward, of such loops.

    Not where a step comes in each turn, which may be what it clips for; nor where the turn takes
    the gradients itself, as of each sample that is clipped by itself for privacy.
    """
    for loop, later in _loops_of_parts(tree):
        always = {_whose(call) for node in loop.body for call in _of(node, "step")}
        if later and not always and not _takes_gradients(loop):
            for node in loop.body:
                yield from (call for name in _CLIPS for call in _of(node, name))


def _takes_gradients(loop: Loop) -> bool:
    nodes = (node for part in loop.body for node in walked(part))
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in nodes)


def _loops_of_parts(tree: ast.Module) -> Iterator[tuple[Loop, set[str]]]:
    """The innermost loops with a backward, and the optimizers that step once for several turns."""
    for scope in scopes_of(tree):
        for loop in loops_in(scope):
            within = [*loops_in(loop)]
            if has_backward(loop) and not any(map(has_backward, within)):
                steps = {_whose(call) for call in calls_in(loop) if _is_step(call)}
                yield loop, _steps_behind(scope, loop) - steps | _steps_that_count(loop)


def _of(node: ast.stmt, name: str) -> list[ast.Call]:
    """The call of a method as a statement of its own."""
    call = node.value if isinstance(node, ast.Expr) else None
    return [call] if isinstance(call, ast.Call) and called(call) == name else []


def _is_step(call: ast.Call) -> bool:
    return called(call) == "step" and isinstance(call.func, ast.Attribute)


def _whose(call: ast.Call) -> str:
    """The optimizer that is cleared, or takes a step, also by a scaler."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    is_scaler = called(call) == "step" and len(call.args) == 1
    return ast.unparse(call.args[0] if is_scaler else of)


def _steps_behind(scope: ast.AST, loop: Loop) -> set[str]:
    """The optimizers that take a step behind a loop, in the same turn of the one around it."""
    for around in (x for x in inner(scope) if isinstance(x, LOOPS) and loop in x.body):
        behind = around.body[around.body.index(loop) + 1 :]
        calls = (call for node in behind for call in (*_of(node, "step"), *_in_blocks(node)))
        return {_whose(call) for call in calls}
    return set()


def _in_blocks(node: ast.stmt) -> Iterator[ast.Call]:
    return (call for call in calls_in(node) if _is_step(call))


def _steps_that_count(loop: Loop) -> set[str]:
    """The optimizers whose step comes in every so many-th turn alone, of the backwards of others.

    One that has a backward beside it is of a player that moves less often.
    """
    branches = (x for x in loop.body if isinstance(x, ast.If) and "%" in ast.unparse(x.test))
    alone = (node for node in branches if not has_backward(node))
    counted = {_whose(call) for node in alone for call in _in_blocks(node)}
    always = {_whose(call) for node in loop.body for call in _of(node, "step")}
    return counted - always
