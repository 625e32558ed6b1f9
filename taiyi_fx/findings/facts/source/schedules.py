"""Schedules of the learning rate that code steps in other turns than those that they count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from taiyi_fx.findings.facts.source.syntax import (
    Loop,
    called,
    has_backward,
    inner,
    loops_in,
    scopes_of,
    walked,
    whose,
)

_SCHEDULES = frozenset(
    "CosineAnnealingLR OneCycleLR LinearLR PolynomialLR get_cosine_schedule_with_warmup "
    "get_linear_schedule_with_warmup".split()
)
_LENGTHS = frozenset("T_max total_iters total_steps num_training_steps".split())
_PLACES = {"CosineAnnealingLR": 1}
"""The place of a schedule's length among its arguments, where it has one that is usual."""
_EPOCHS = re.compile(r"epochs?\b")
_STEPS = re.compile(r"len\(|steps?\b|iters?\b|iterations?\b|batches\b|per_epoch")


def misplaced_schedules(tree: ast.Module) -> Iterator[ast.expr]:
    """The steps of a schedule whose length is in epochs, taken with each batch; or the other way.

    As ``CosineAnnealingLR(optimizer, T_max=epochs)`` with its ``step()`` in the loop over batches,
    told by what the length is computed of.
    """
    everywhere = _units_in(walked(tree))
    for scope in scopes_of(tree):
        units = everywhere | _units_in(inner(scope))
        for epoch in loops_in(scope):
            batches = [loop for loop in loops_in(epoch) if _trains(loop)]
            if _trains(epoch) or not batches:
                continue
            turns = [("epochs", call) for loop in batches for call in _steps_of(loop)]
            turns += [("steps", call) for call in _steps_of(epoch)]
            yield from (call for unit, call in turns if units.get(whose(call)) == {unit})


def _units_in(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """The units of all that each name is set to in some code; an empty one of other things."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            found.setdefault(ast.unparse(node.targets[0]), set()).add(_unit_of(node.value))
    return found


def _unit_of(value: ast.expr) -> str:
    """The turns that a schedule's length is counted in, ``"epochs"`` or ``"steps"``; else empty."""
    if not isinstance(value, ast.Call) or called(value) not in _SCHEDULES:
        return ""
    lengths = [ast.unparse(x.value) for x in value.keywords if x.arg in _LENGTHS]
    place = _PLACES.get(called(value))
    lengths += [ast.unparse(x) for x in value.args[place : place + 1]] if place else []
    if not lengths:
        return ""
    if _STEPS.search(lengths[0].lower()):
        return "steps"
    return "epochs" if _EPOCHS.search(lengths[0].lower()) else ""


def _trains(loop: Loop) -> bool:
    """True for a loop with backward in it, but for that of loops in it."""
    return has_backward(loop) and not any(map(has_backward, loops_in(loop)))


def _steps_of(loop: Loop) -> Iterator[ast.Call]:
    """The calls of ``step()`` that are statements of each turn."""
    for node in loop.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and called(call) == "step" and not call.args:
            yield call
