"""Samples that a method sorts by their lengths, and returns in that order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, Function, called, walked

_SORTS = frozenset({"sort", "argsort"})
_TAKES = frozenset({"index_select", "gather", "take_along_dim"})
_LENGTHS = re.compile(r"len|size|count|n_|num")
_TARGETS = re.compile(r"y|ys|targets?|labels?|tgt|tags?")


def rows_left_sorted(tree: ast.AST) -> Iterator[ast.expr]:
    """The sorts of lengths by which a method orders its arguments, and that it uses for no more.

    As ``lengths, order = lengths.sort(descending=True)`` and ``x = x[order]`` before
    ``pack_padded_sequence``, where nothing puts the rows back, as by ``h[order.argsort()]``, and
    the order is not returned. Not where targets are ordered, too.

    Args:
        tree: The code of a method.
    """
    for function in (x for x in walked(tree) if isinstance(x, FUNCTIONS)):
        calls = [x for x in walked(function) if isinstance(x, ast.Call)]
        if any(called(call) == "pack_padded_sequence" for call in calls):
            for node in walked(function):
                if isinstance(node, ast.Assign) and _is_sort(node.value):
                    order = _order_in(node)
                    if order and _only_orders_arguments(function, order):
                        yield node.value


def _is_sort(value: ast.expr) -> bool:
    is_sort = isinstance(value, ast.Call) and called(value) in _SORTS
    return is_sort and _LENGTHS.search(ast.unparse(value).lower()) is not None


def _order_in(node: ast.Assign) -> str:
    """The name of the order: the second of what a sort returns, or all that an argsort does."""
    (target,) = node.targets[-1:]
    is_pair = isinstance(target, ast.Tuple) and len(target.elts) == 2
    if isinstance(node.value, ast.Call) and called(node.value) == "argsort":
        return ast.unparse(target) if isinstance(target, ast.Name) else ""
    return ast.unparse(target.elts[1]) if is_pair and isinstance(target, ast.Tuple) else ""


def _only_orders_arguments(function: Function, order: str) -> bool:
    """True if each use of an order takes rows of an argument by it, and of no targets."""
    arguments = {x.arg for x in function.args.args}
    uses = [x for x in walked(function) if isinstance(x, ast.Name) and x.id == order]
    reads = [x for x in uses if isinstance(x.ctx, ast.Load)]
    taken = {id(by): of for node in walked(function) for of, by in _taken_in(node)}
    known = [taken.get(id(read), "") for read in reads]
    is_of_targets = any(_TARGETS.fullmatch(name.lower()) for name in known)
    return (
        len(uses) == len(reads) + 1 and bool(known) and {*known} <= arguments and not is_of_targets
    )


def _taken_in(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The things that rows are taken of, and the index of each."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        by = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        yield ast.unparse(node.value), by
    if (
        isinstance(node, ast.Call)
        and called(node) in _TAKES
        and isinstance(node.func, ast.Attribute)
    ):
        yield from ((ast.unparse(node.func.value), by) for by in node.args)
