"""Splits of samples into those to be trained on and others, which code makes and does not keep."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    BY_NAME,
    LOOPS,
    Scope,
    given_in,
    has_backward,
    inner,
    minimized_in,
    names_in,
    scopes_of,
    statements_in,
    walked,
)

_SPLIT = r"_?(mask|idx|idxs|index|indices|ids|nodes)"
_OF_TRAINING = re.compile("(train|training)" + _SPLIT)
_OF_EVALUATION = re.compile("(val|valid|validation|test)" + _SPLIT)


def unused_splits(tree: ast.Module) -> Iterator[ast.expr]:
    """The masks or indices of what is to be trained on that nothing reads, as evaluation's are."""
    if not any(map(has_backward, scopes_of(tree))):
        return
    filled = {
        id(x.value)
        for x in walked(tree)
        if isinstance(x, ast.Subscript) and isinstance(x.ctx, ast.Store)
    }
    named = [x for x in walked(tree) if isinstance(x, (ast.Name, ast.Attribute))]
    read = {_last_of(x) for x in named if isinstance(x.ctx, ast.Load) and id(x) not in filled}
    if any(map(_OF_EVALUATION.fullmatch, read)) and names_in(tree).isdisjoint(BY_NAME):
        sets = [x for x in named if isinstance(x.ctx, ast.Store)]
        unread = [
            x for x in sets if _OF_TRAINING.fullmatch(_last_of(x)) and _last_of(x) not in read
        ]
        yield from {_last_of(x): x for x in unread[::-1]}.values()


def _last_of(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def whole_splits(tree: ast.Module) -> Iterator[ast.expr]:
    """The losses of outputs and targets as they are, where others take some rows of both.

    As ``F.cross_entropy(out, y)`` beside ``out[val_mask], y[val_mask]``, in files that know a
    ``train_mask``, too; not of names that a loop gives batch by batch.
    """
    parts = [x for x in walked(tree) if isinstance(x, ast.Subscript)]
    evaluated = {ast.unparse(x.value) for x in parts if _names(x.slice, _OF_EVALUATION)}
    if len(evaluated) < 2 or not _names(tree, _OF_TRAINING):
        return
    for scope in scopes_of(tree):
        minimized = [*minimized_in(scope)]
        names = {ast.unparse(x) for x in minimized}
        values = [x.value for x in given_in(statements_in(scope)) if x.name in names]
        batches = _of_batches(scope)
        for call in (x for x in (*minimized, *values) if isinstance(x, ast.Call)):
            given = [ast.unparse(x) for x in call.args]
            if len(given) > 1 and {*given[:2]} <= evaluated - batches:
                yield call


def _names(node: ast.AST, known: re.Pattern[str]) -> bool:
    """True for code with a variable or an attribute of such a name."""
    named = (getattr(x, "id", "") or getattr(x, "attr", "") for x in walked(node))
    return any(map(known.fullmatch, named))


def _of_batches(scope: Scope) -> set[str]:
    """The names that loops set to what comes next, and to parts of other things."""
    loops = (x for x in inner(scope) if isinstance(x, LOOPS) and not isinstance(x, ast.While))
    found = {name for loop in loops for name in names_in(loop.target, ast.Store)}
    sets = given_in(statements_in(scope))
    return found | {x.name for x in sets if isinstance(x.value, ast.Subscript)}
