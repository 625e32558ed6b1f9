"""Mixtures of samples whose targets are mixed by the other one's share."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.syntax import (
    factors_of,
    method_of,
    signed_terms_of,
    values_in,
    walked,
)

_TURNS = frozenset("flip roll".split())
"""Methods that bring rows into another order."""


class _Rows(NamedTuple):
    """Rows in another order, as of ``x[order]`` and ``x.flip(0)``.

    Attributes:
        of: What they are rows of.
        order: The order, as it is written.
    """

    of: str
    order: str


class _Mixture(NamedTuple):
    """A sum of two parts by shares that add up to 1, of which one is in another order.

    Attributes:
        key: A share, and the order of the other part.
        keeps: Whether the part that is in its own order has that share.
        is_plain: Whether the parts are the same rows, but for their order.
        code: The sum.
    """

    key: tuple[str, str]
    keeps: bool
    is_plain: bool
    code: ast.expr


_Values = Mapping[str, Sequence[ast.expr]]
"""All that code gives to each name."""


def turned_mixtures(tree: ast.Module) -> Iterator[ast.expr]:
    """The sums ``a * loss(z, y[order]) + (1 - a) * loss(z, y)`` of what was mixed the other way.

    As ``a * x + (1 - a) * x[order]`` before them in the file; of one share and one order, in names
    that stand for the same throughout the file.
    """
    values = values_in(walked(tree))
    sums = [x for x in walked(tree) if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add)]
    sums.sort(key=lambda x: (x.lineno, x.col_offset))
    known: dict[tuple[str, str], bool] = {}
    for one in (found for x in sums if (found := _mixture(x, values)) is not None):
        if one.is_plain:
            known.setdefault(one.key, one.keeps)
        if known.get(one.key, one.keeps) != one.keeps:
            yield one.code


def _mixture(value: ast.BinOp, values: _Values) -> _Mixture | None:
    terms = [factors_of(term)[1] for sign, term in signed_terms_of(value) if sign > 0]
    if len(terms) != 2 or {*map(len, terms)} != {2}:
        return None
    for share in terms[0]:
        for rest in terms[1]:
            written = _share_of(share, rest)
            if written is not None:
                name, is_first = written
                first, second = (_others(t, x) for t, x in zip(terms, (share, rest), strict=True))
                return _mixed(value, name, (first, second) if is_first else (second, first), values)
    return None


def _share_of(one: ast.expr, other: ast.expr) -> tuple[str, bool] | None:
    """The share of two that add up to 1 which is not written as 1 less the other, and where."""
    texts = [ast.unparse(x) for x in (one, other)]
    for i in (0, 1):
        if texts[1 - i] in (f"1 - {texts[i]}", f"1.0 - {texts[i]}"):
            return texts[i], i == 0
    return None


def _others(factors: list[ast.expr], share: ast.expr) -> ast.expr:
    return next(x for x in factors if x is not share)


def _mixed(
    code: ast.expr,
    share: str,
    parts: tuple[ast.expr, ast.expr],
    values: _Values,
) -> _Mixture | None:
    """The mixture of a part that has a share, and of one that has the rest."""
    first, second = ([*_rows_in(part, values)] for part in parts)
    found = {rows.order for rows in (*first, *second)}
    if len(found) != 1 or (first and second):
        return None
    own, rows = (parts[0], second) if second else (parts[1], first)
    is_plain = ast.unparse(own) in (one.of for one in rows)
    return _Mixture((share, found.pop()), bool(second), is_plain, code)


def _rows_in(part: ast.expr, values: _Values) -> Iterator[_Rows]:
    """The rows in another order that something is made of, also those that have a name."""
    for node in walked(part):
        named = values.get(node.id, ()) if isinstance(node, ast.Name) else ()
        yield from (rows for x in (node, *named) if (rows := _rows(x)) is not None)


def _rows(node: ast.AST) -> _Rows | None:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        return _Rows(ast.unparse(node.value), node.slice.id)
    turned = method_of(node)
    if turned is None or turned.name not in _TURNS:
        return None
    arguments = (*turned.args, *turned.told.values())
    return _Rows(ast.unparse(turned.of), f"{turned.name}({', '.join(map(ast.unparse, arguments))})")
