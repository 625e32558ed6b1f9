"""Cells of a grid that code takes by column and row, where it takes those of images by row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from taiyi_fx.findings.facts.source.syntax import given_in, inner, scopes_of, values_in, walked

_ACROSS = re.compile(
    r"([a-z]*_)?[a-z]?x(\d|_?(min|max|idx|ind|cell|grid|start|end|c))?|col(umn)?s?"
)
_DOWN = re.compile(r"([a-z]*_)?[a-z]?y(\d|_?(min|max|idx|ind|cell|grid|start|end|c))?|rows?")
"""Names of places along a row, and down a column."""
_MADE = frozenset({"zeros", "ones", "full", "empty", "zeros_like", "new_zeros", "full_like"})

Values = Mapping[str, Sequence[ast.expr]]


def turned_grids(tree: ast.Module) -> Iterator[ast.expr]:
    """The cells that are written at ``[x, y]``, in code which takes others at ``[y, x]``.

    As ``target[i, gx, gy] = 1`` beside ``image[y : y + h, x : x + w]``. Written into what the code
    makes itself and never takes in either order, as it does where it means that one, or both. Not
    of counts, as of pairs: ``table[x, y] += 1``.
    """
    counts = {id(x.target) for x in walked(tree) if isinstance(x, ast.AugAssign)}
    found = [
        (order, node) for scope in scopes_of(tree) for order, node in _ordered(list(inner(scope)))
    ]
    if not any(order == "yx" for order, _ in found):
        return
    meant = {
        ast.unparse(x.value) for order, x in found if order == "yx" or isinstance(x.ctx, ast.Load)
    }
    made = {
        name for name, value, _ in given_in(walked(tree)) if any(_makes(x) for x in walked(value))
    }
    for order, node in found:
        is_told = order == "xy" and id(node) not in counts
        if is_told and ast.unparse(node.value) in made - meant:
            yield node


def _makes(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _MADE


def _ordered(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.Subscript]]:
    """The cells that are taken by two places in turn, and their order: ``"xy"`` or ``"yx"``."""
    values = values_in(nodes)
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            axes = [_axis_of(place, values) for place in node.slice.elts]
            for order in ("xy", "yx"):
                if (order[0], order[1]) in pairwise(axes):
                    yield order, node


def _axis_of(place: ast.expr, values: Values) -> str:
    """The axis of a place by the names in it: ``"x"``, ``"y"``, or empty if that is not clear."""
    axes = _named_in(place)
    if not axes and isinstance(place, ast.Name):
        axes = {axis for value in values.get(place.id, ()) for axis in _named_in(value)}
    return axes.pop() if len(axes) == 1 else ""


def _named_in(value: ast.expr) -> set[str]:
    names = [x.id for x in walked(value) if isinstance(x, ast.Name)]
    axes = (("x", _ACROSS), ("y", _DOWN))
    return {axis for axis, known in axes for name in names if known.fullmatch(name.lower())}
