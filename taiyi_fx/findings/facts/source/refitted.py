"""Encodings and scales that are fitted anew to the data of evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, Function, called, names_in, walked

_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|dev|eval|held_?out|holdout)(_|$)")
_SHOWS = re.compile(r"tsne|umap|mds|pca|isomap|embedding|reducer")
"""What is fitted to samples in order to draw them."""
_CODES = re.compile(r"encod|vocab|(^|_)maps?(_|$)|2id|to_?(id|ind)|codes|categor")
"""Names of functions that give each value a number, and of what they return."""
_TRAINING = re.compile(r"(^|_)(train|training|trn|fit)(_|$)")


def refitted_to_evaluation(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls of ``fit_transform`` of data of evaluation, by their names.

    In files that call it, or ``fit``, of data of training: numbers mean others then than those that
    the model was trained with.
    """
    calls = [x for x in walked(tree) if isinstance(x, ast.Call) and x.args]
    fits = [x for x in calls if called(x) in ("fit", "fit_transform")]
    if _are_of_both([call.args[0] for call in fits]):
        for call in fits:
            is_shown = _SHOWS.search(ast.unparse(call.func).lower()) is not None
            if called(call) == "fit_transform" and not is_shown and _is_of_evaluation(call.args[0]):
                yield call


def fitted_to_each(tree: ast.Module) -> Iterator[ast.expr]:
    """The codes and scales that data of training and of evaluation get, each alone.

    As ``pd.factorize(df["user"])`` in an ``encode(df)`` that both go through, or of the one and of
    the other, and a function that numbers values as they come, ``codes[value] = len(codes)``.
    """
    yield from _numbered_beside(tree)
    calls = [x for x in walked(tree) if isinstance(x, ast.Call) and x.args]
    for function in (x for x in walked(tree) if isinstance(x, FUNCTIONS)):
        of_it = [call.args[0] for call in calls if called(call) == function.name]
        if not _are_of_both(of_it):
            continue
        names = {one.arg for one in function.args.args}
        for node in walked(function):
            data = _fitted(node)
            if isinstance(node, ast.expr) and data is not None and names & names_in(data):
                yield node
        numbered = next(_numbers_given(function), None)
        if numbered is not None and _CODES.search(function.name.lower()):
            yield numbered


def _numbered_beside(tree: ast.Module) -> Iterator[ast.expr]:
    """The codes of data of evaluation that are counted anew, beside those of training."""
    found = [
        (node, data)
        for node in walked(tree)
        if isinstance(node, ast.expr) and (data := _numbered(node)) is not None
    ]
    if _are_of_both([data for _, data in found]):
        yield from (node for node, data in found if _is_of_evaluation(data))


def _are_of_both(data: Sequence[ast.expr]) -> bool:
    is_of_training = any(_is_of(x, _TRAINING) and not _is_of(x, _EVALUATION) for x in data)
    return is_of_training and any(map(_is_of_evaluation, data))


def _is_of_evaluation(data: ast.expr) -> bool:
    return _is_of(data, _EVALUATION) and not _is_of(data, _TRAINING)


def _fitted(node: ast.AST) -> ast.expr | None:
    """The data that an expression fits codes or a scale to; None of others."""
    is_fit = isinstance(node, ast.Call) and called(node) == "fit_transform" and node.args
    return node.args[0] if isinstance(node, ast.Call) and is_fit else _numbered(node)


def _numbered(node: ast.AST) -> ast.expr | None:
    """The data whose values an expression numbers as it meets them; None of others."""
    if isinstance(node, ast.Attribute) and node.attr == "codes":
        of = node.value
        if ast.unparse(of).endswith(".astype('category').cat"):  # of no categories that are given
            return of
        is_alone = isinstance(of, ast.Call) and called(of) == "Categorical" and not of.keywords
        return of.args[0] if isinstance(of, ast.Call) and is_alone and len(of.args) == 1 else None
    if not isinstance(node, ast.Call) or called(node) != "factorize":
        return None
    return node.args[0] if node.args else getattr(node.func, "value", None)


def _numbers_given(function: Function) -> Iterator[ast.expr]:
    """The entries of a dictionary that a function sets to their number, one after the other."""
    for node in walked(function):
        entry = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(entry, ast.Subscript):
            yield from [entry] * (ast.unparse(node.value) == f"len({ast.unparse(entry.value)})")
        if isinstance(node, ast.DictComp) and isinstance(node.key, ast.Name):
            over = (x.iter for x in node.generators)
            yield from [node] * any(
                isinstance(x, ast.Call) and called(x) == "enumerate" for x in over
            )


def _is_of(data: ast.expr, kind: re.Pattern[str]) -> bool:
    """True for data with such a name, or an entry of it."""
    names = (
        x.id if isinstance(x, ast.Name) else x.attr if isinstance(x, ast.Attribute) else ""
        for x in walked(data)
    )
    return any(kind.search(name.lower()) for name in names)
