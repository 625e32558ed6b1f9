"""Encodings and scales that are fitted anew to the data of evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, Function, called, names_in

_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|dev|eval|held_?out|holdout)(_|$)")
_SHOWS = re.compile(r"tsne|umap|mds|pca|isomap|embedding|reducer")
"""What is fitted to samples in order to draw them."""
_FITS = frozenset({"factorize", "fit_transform"})
_CODES = re.compile(r"encod|vocab|(^|_)maps?(_|$)|2id|to_?(id|ind)|codes|categor")
"""Names of functions that give each value a number, and of what they return."""
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
            is_shown = _SHOWS.search(ast.unparse(call.func).lower()) is not None
            is_anew = called(call) == "fit_transform" and not is_shown
            is_anew = is_anew and _is_of(call, _EVALUATION)
            if is_anew and not _is_of(call, _TRAINING):
                yield call


def fitted_to_each(tree: ast.Module) -> Iterator[ast.expr]:
    """The fits in a function that is called of data of training and of evaluation, each alone.

    As ``pd.factorize(df["user"])`` in an ``encode(df)`` that both go through, or a function that
    numbers values as they come, ``codes[value] = len(codes)``.
    """
    calls = [x for x in ast.walk(tree) if isinstance(x, ast.Call) and x.args]
    for function in (x for x in ast.walk(tree) if isinstance(x, FUNCTIONS)):
        of_it = [call for call in calls if called(call) == function.name]
        is_of_both = any(
            _is_of(call, _TRAINING) and not _is_of(call, _EVALUATION) for call in of_it
        ) and any(_is_of(call, _EVALUATION) and not _is_of(call, _TRAINING) for call in of_it)
        names = {one.arg for one in function.args.args}
        if not is_of_both:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and called(node) in _FITS and names & _named(node):
                yield node
        numbered = next(_numbers_given(function), None)
        if numbered is not None and _CODES.search(function.name.lower()):
            yield numbered


def _numbers_given(function: Function) -> Iterator[ast.expr]:
    """The entries of a dictionary that a function sets to their number, one after the other."""
    for node in ast.walk(function):
        entry = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(entry, ast.Subscript):
            yield from [entry] * (ast.unparse(node.value) == f"len({ast.unparse(entry.value)})")
        if isinstance(node, ast.DictComp) and isinstance(node.key, ast.Name):
            over = (x.iter for x in node.generators)
            yield from [node] * any(
                isinstance(x, ast.Call) and called(x) == "enumerate" for x in over
            )


def _named(call: ast.Call) -> set[str]:
    return names_in(call.args[0]) if call.args else set()


def _is_of(call: ast.Call, kind: re.Pattern[str]) -> bool:
    """True for a call of data with such a name, or of an entry of it."""
    names = (
        x.id if isinstance(x, ast.Name) else x.attr if isinstance(x, ast.Attribute) else ""
        for x in ast.walk(call.args[0])
    )
    return any(kind.search(name.lower()) for name in names)
