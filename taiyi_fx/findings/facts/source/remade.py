"""Optimizers that code makes anew while it trains: what they have gathered is lost each time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    has_backward,
    inner,
    loops_in,
    names_in,
    scopes_of,
)

_OPTIMIZERS = re.compile(
    r"(torch\.)?(optim\.)?(SGD|RMSprop|Adagrad|Adadelta|[NR]?Adam(W|ax)?|Lion)"
)
_EPOCHS = re.compile(r"(i_?|n_?)?(epochs?|ep)(_?(i|idx|num|id))?")


def remade_optimizers(tree: ast.Module) -> Iterator[ast.expr]:
    """The optimizers that are made in each turn of a loop of steps or epochs; their model is not.

    Of what one branch makes alone nothing is told: it may be made once.
    """
    for scope in scopes_of(tree):
        for loop in loops_in(scope):
            if not (has_backward(loop) and (_is_of_steps(loop) or _is_of_epochs(loop))):
                continue
            own = {name for node in inner(loop) for name in names_in(node, ast.Store)}
            for node in loop.body:
                call = node.value if isinstance(node, ast.Assign) else None
                if isinstance(call, ast.Call) and _is_optimizer(call):
                    given = names_in(call) - names_in(call.func)
                    if given and given.isdisjoint(own):
                        yield call


def _is_optimizer(call: ast.Call) -> bool:
    return _OPTIMIZERS.fullmatch(ast.unparse(call.func)) is not None and bool(call.args)


def _is_of_steps(loop: ast.AST) -> bool:
    """True for the innermost loop with backward in it."""
    return not any(True for _ in loops_in(loop))


def _is_of_epochs(loop: ast.AST) -> bool:
    target = getattr(loop, "target", None)
    return isinstance(target, ast.Name) and _EPOCHS.fullmatch(target.id.lower()) is not None
