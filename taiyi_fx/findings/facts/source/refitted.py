"""Encodings and scales that are fitted anew to the data of evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called

_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|dev|eval|held_?out|holdout)(_|$)")
_TRAINING = re.compile(r"(^|_)(train|training|trn|fit)(_|$)")


def refitted_to_evaluation(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls of ``fit_transform`` of data of evaluation, by their names.

    In files that call it, or ``fit``, of data of training: numbers mean others then than those that
    the model was trained with.
    """
    calls = [x for x in ast.walk(tree) if isinstance(x, ast.Call) and x.args]
    fits = [x for x in calls if called(x) in ("fit", "fit_transform")]
    if any(_is_of(call, _TRAINING) and not _is_of(call, _EVALUATION) for call in fits):
        for call in fits:
            is_anew = called(call) == "fit_transform" and _is_of(call, _EVALUATION)
            if is_anew and not _is_of(call, _TRAINING):
                yield call


def _is_of(call: ast.Call, kind: re.Pattern[str]) -> bool:
    """True for a call of data with such a name, or of an entry of it."""
    names = (
        x.id if isinstance(x, ast.Name) else x.attr if isinstance(x, ast.Attribute) else ""
        for x in ast.walk(call.args[0])
    )
    return any(kind.search(name.lower()) for name in names)
