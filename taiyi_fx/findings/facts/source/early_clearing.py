"""Gradients that are cleared before another player's backward, and not before the own one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.shared_weights import optimizers_in
from taiyi_fx.findings.facts.source.syntax import (
    Loop,
    called,
    calls_in,
    given_in,
    loops_in,
    names_in,
    scopes_of,
    values_in,
    whose,
)

_SWITCHES = ("requires_grad", "autograd.grad", "toggle", "freeze")
"""Words of code in which weights may get no gradient, or another one."""


class _Event(NamedTuple):
    """A call that clears gradients, adds to them, or takes a step.

    Attributes:
        what: ``"zero_grad"``, ``"backward"`` or ``"step"``.
        of: The optimizer, the model, or the loss.
        call: The call.
    """

    what: str
    of: str
    call: ast.Call


def cleared_too_early(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls of ``zero_grad`` behind which the backward of another player's loss comes.

    As ``opt_d.zero_grad()`` right behind ``opt_d.step()``: then the generator's loss, which is made
    by the discriminator, leaves gradients there, to which the next backward adds.
    """
    code = ast.unparse(tree)
    if any(word in code for word in _SWITCHES):
        return
    scopes = scopes_of(tree)
    models = {
        name: of
        for scope in scopes
        for name, (_, every) in optimizers_in(scope).items()
        if len(every) == 1
        for of in every
    }
    for loop in (loop for scope in scopes for loop in loops_in(scope)):
        events = _events_of(loop)
        for name in dict.fromkeys(one.of for one in events if one.what == "step"):
            if name in models:
                yield from _too_early(events, name, models[name], loop, tree)


def _events_of(loop: Loop) -> list[_Event]:
    """The calls about gradients in each turn of a loop; none if some turns make others."""
    plain = [x.value for x in loop.body if isinstance(x, ast.Expr)]
    calls = [call for call in calls_in(loop) if called(call) in ("zero_grad", "backward", "step")]
    are_plain = all(call in plain for call in calls)
    known = (_Event(called(call), whose(call), call) for call in calls if not call.args)
    found = [*known] if are_plain else []
    return found if len(found) == len(calls) else []


def _too_early(
    events: Sequence[_Event], optimizer: str, model: str, loop: Loop, tree: ast.Module
) -> Iterator[ast.expr]:
    steps = [i for i, one in enumerate(events) if one == ("step", optimizer, one.call)]
    if len(steps) != 1:
        return
    # The turn that ends with its step, from the clearing before it on.
    turn = [*events[steps[0] + 1 :], *events[: steps[0] + 1]]
    clears = [i for i, x in enumerate(turn) if x.what == "zero_grad" and x.of in (optimizer, model)]
    others = [i for i, x in enumerate(turn) if x.what == "step" and x.of != optimizer]
    if not clears or not others:
        return
    for event in turn[clears[-1] : others[-1]]:
        if event.what == "backward" and model in _models_in(event.of, loop, tree):
            yield turn[clears[-1]].call
            return


def _models_in(loss: str, loop: Loop, tree: ast.Module) -> set[str]:
    """The names that a loss is made of in a loop, and what these were made of by a call."""
    values = values_in(ast.walk(loop)).get(loss, ())
    names = {name for value in values for name in names_in(value)}
    for name, value, _ in given_in(ast.walk(tree)):
        if name in names and isinstance(value, ast.Call):
            names |= {ast.unparse(one) for one in value.args[:1]}
    return names
