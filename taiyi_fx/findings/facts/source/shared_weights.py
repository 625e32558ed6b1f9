"""Weights that two optimizers of one loop train."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from taiyi_fx.findings.facts.source.syntax import (
    Scope,
    called,
    calls_in,
    given_in,
    loops_in,
    scopes_of,
    statements_in,
    walked,
    whose,
)

_OPTIMIZERS = re.compile(r"(\w*(SGD|Adam|AdamW|RMSprop|Adagrad|Adadelta|Lion|Muon))|LBFGS|Rprop")


def doubly_trained(tree: ast.Module) -> Iterator[ast.Call]:
    """The optimizers that have all that another one of the same loop has, and a model of their own.

    As ``Adam(chain(G.parameters(), D.parameters()))`` beside ``Adam(D.parameters())``: its steps
    undo what the other's do. Told where no third one has either: games with a term for several
    players make a third optimizer on purpose.
    """
    for scope in scopes_of(tree):
        made = optimizers_in(scope)
        for name, (call, models) in made.items():
            inner_ones = [of for other, (_, of) in made.items() if other != name and of < models]
            others = set().union(*(of for other, (_, of) in made.items() if other != name))
            if len(made) == 2 and inner_ones and others == inner_ones[0]:
                loops = (loop for some in scopes_of(tree) for loop in loops_in(some))
                steps = [_stepped_in(loop) for loop in loops]
                if any(made.keys() <= stepped for stepped in steps):
                    yield call


def optimizers_in(scope: Scope) -> Mapping[str, tuple[ast.Call, set[str]]]:
    """The optimizers that code makes: the call, and the models whose parameters each has."""
    found: dict[str, tuple[ast.Call, set[str]]] = {}
    for name, value, _ in given_in(statements_in(scope)):
        if isinstance(value, ast.Call) and _OPTIMIZERS.fullmatch(called(value)):
            calls = (x for given in value.args for x in walked(given) if isinstance(x, ast.Call))
            models = {whose(call) for call in calls if called(call) == "parameters"}
            if models:
                found[name] = value, models
    return found


def _stepped_in(loop: ast.AST) -> set[str]:
    """The things of which a loop calls a method ``step``."""
    return {whose(call) for call in calls_in(loop) if called(call) == "step"}
