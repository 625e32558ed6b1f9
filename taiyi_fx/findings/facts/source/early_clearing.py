"""Gradients that are cleared before another player's backward, and not before the own one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.shared_weights import optimizers_in
from taiyi_fx.findings.facts.source.syntax import (
    Loop,
    called,
    calls_in,
    given_in,
    is_without_gradient,
    loops_in,
    scopes_of,
    walked,
    whose,
)

_CUTS = ("detach", "item", "numpy", "tolist")
"""Methods behind which no gradient goes on."""
_JUDGES = re.compile(
    r"(^|_|net)(d|dis|disc|critic\d?|judge|adv)(_|$)|discriminat|critic|adversar", re.I
)
"""Names of a model that judges what the other one makes: what these two lose is not added up."""
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
                yield from _too_early(events, name, models, loop, tree)


def _is_judge(model: str) -> bool:
    return _JUDGES.search(model.rpartition(".")[2]) is not None


def _events_of(loop: Loop) -> list[_Event]:
    """The calls about gradients in each turn of a loop; none if some turns make others."""
    plain = [x.value for x in loop.body if isinstance(x, ast.Expr)]
    calls = [call for call in calls_in(loop) if called(call) in ("zero_grad", "backward", "step")]
    are_plain = all(call in plain for call in calls)
    known = (_Event(called(call), whose(call), call) for call in calls if not call.args)
    found = [*known] if are_plain else []
    return found if len(found) == len(calls) else []


def _too_early(
    events: Sequence[_Event],
    optimizer: str,
    models: Mapping[str, str],
    loop: Loop,
    tree: ast.Module,
) -> Iterator[ast.expr]:
    model = models[optimizer]
    steps = [i for i, one in enumerate(events) if one == ("step", optimizer, one.call)]
    if len(steps) != 1:
        return
    # The turn that ends with its step, from the clearing before it on.
    turn = [*events[steps[0] + 1 :], *events[: steps[0] + 1]]
    clears = [i for i, x in enumerate(turn) if x.what == "zero_grad" and x.of in (optimizer, model)]
    backwards = [i for i, x in enumerate(turn) if x.what == "backward"]
    # Other players', with an own backward behind them: else the two have one loss.
    others = [
        i
        for i, x in enumerate(turn[: max(backwards, default=0)])
        if x.what == "step"
        and x.of != optimizer
        and (_is_judge(model) or _is_judge(models.get(x.of, "")))
    ]
    if not clears or not others:
        return
    for event in turn[clears[-1] : others[-1]]:
        if event.what == "backward" and model in _models_in(event, loop, tree):
            yield turn[clears[-1]].call
            return


def _models_in(event: _Event, loop: Loop, tree: ast.Module) -> set[str]:
    """The names that a loss is made of in a loop, and those that what it calls was made of."""
    blocks = filter(is_without_gradient, walked(loop))
    behind = {id(x) for block in blocks for x in walked(block)}
    given = [*given_in(x for x in walked(loop) if id(x) not in behind)]
    names, waiting = set[str](), [(event.of, event.call.lineno)]
    while waiting:
        name, line = waiting.pop()
        before = [one for one in given if one.name == name and one.line < line]
        for last in sorted(before, key=lambda one: one.line)[-1:]:
            new = _names_with_gradients(last.value)
            waiting += [(one, last.line) for one in new]
            names |= new
    for name, value, _ in given_in(walked(tree)):
        if name in names and isinstance(value, ast.Call):
            names |= {ast.unparse(one) for one in value.args[:1]}
    return names


def _names_with_gradients(value: ast.expr) -> set[str]:
    """The names that something is made of, but for what is in ``x.detach()`` and the like."""
    if isinstance(value, ast.Call) and called(value) in _CUTS:
        return set()
    own = {value.id} if isinstance(value, ast.Name) else set()
    inside = (x for x in ast.iter_child_nodes(value) if isinstance(x, (ast.expr, ast.keyword)))
    of = (x.value if isinstance(x, ast.keyword) else x for x in inside)
    return own.union(*map(_names_with_gradients, of))
