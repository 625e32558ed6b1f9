"""Terms of a loss that have no gradient, and such that another value takes the place of."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    LOOPS,
    Scope,
    added_up,
    called,
    factors_of,
    has_backward,
    inner,
    is_setting,
    minimized_in,
    names_in,
    scopes_of,
    statements_in,
    terms_of,
    values_in,
    walked,
)

_NUMBERS = frozenset({"item", "detach", "tolist", "numpy"})


def constant_terms(tree: ast.Module) -> Iterator[ast.expr]:
    """The terms of a loss that are numbers to backward, as ``0.1 * penalty.item()``.

    Also sums over parameters of what is made of their ``.data``.

    Of what is added to others alone: a factor is to be a number, and a detached difference may be.
    """
    functions = {node.name: node for node in walked(tree) if isinstance(node, FUNCTIONS)}
    of_data = {name for name, node in functions.items() if _returns_numbers(node)}
    for scope in scopes_of(tree):
        minimized = {ast.unparse(of) for of in minimized_in(scope)}
        values = values_in(statements_in(scope)) if minimized else {}
        of_data_here = {name for name, of in values.items() if all(map(_is_of_data, of))}
        for node in statements_in(scope):
            terms = _added(node, minimized)
            found = [term for term in terms if _is_constant(term, of_data, of_data_here)]
            if found and (len(found) < len(terms) or isinstance(node, ast.AugAssign)):
                yield from found


def _added(node: ast.stmt, minimized: set[str]) -> list[ast.expr]:
    """The terms that are added up to what is minimized; none of a difference."""
    value = added_up(node, minimized)
    if value is None or any(isinstance(x, ast.Sub) for x in walked(value)):
        return []
    return [*terms_of(value)]


def _is_constant(term: ast.expr, functions: Collection[str], names: Collection[str]) -> bool:
    """True for a product in which a number or a detached tensor is, and nothing with a gradient.

    Args:
        term: The product.
        functions: The names of functions that return such.
        names: Those of variables that are such.
    """

    def is_one(factor: ast.expr) -> bool:
        if isinstance(factor, ast.Call):
            return called(factor) in {*_NUMBERS, *functions} or _is_of_data(factor)
        return isinstance(factor, ast.Name) and factor.id in names

    factors = factors_of(term)[1]
    numbers = [x for x in factors if is_one(x)]
    others = [x for x in factors if x not in numbers]
    return bool(numbers) and all(map(is_setting, others))


def _is_of_data(value: ast.expr) -> bool:
    """True for a sum over parameters of what is computed of their ``.data`` alone."""
    made = value.args[0] if isinstance(value, ast.Call) and value.args else None
    if not isinstance(value, ast.Call) or called(value) != "sum":
        return False
    if not isinstance(made, (ast.GeneratorExp, ast.ListComp)):
        return False
    if "parameters()" not in ast.unparse(made.generators[0].iter):
        return False
    names = {x for one in made.generators for x in names_in(one.target, ast.Store)}
    reads = [x for x in walked(made.elt) if isinstance(x, ast.Name) and x.id in names]
    of_data = [x.value for x in walked(made.elt) if _is_data(x)]
    return bool(of_data) and all(x in of_data for x in reads)


def _is_data(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "data"


def _returns_numbers(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for a function all of whose results are such sums."""
    returned = [x.value for x in inner(function) if isinstance(x, ast.Return)]
    return bool(returned) and all(x is not None and _is_of_data(x) for x in returned)


def lost_terms(tree: ast.Module) -> Iterator[ast.expr]:
    """The values of a loss that another one takes the place of before anything reads them.

    In statements that follow each other, and in the turns of a loop that ends before backward.
    """
    for scope in scopes_of(tree):
        minimized = {ast.unparse(of) for of in minimized_in(scope) if isinstance(of, ast.Name)}
        for name in minimized:
            for block in _blocks(scope):
                yield from _overwritten(block, name)
                yield from _of_last_turn(block, name)


def _blocks(scope: Scope) -> Iterator[Sequence[ast.stmt]]:
    yield scope.body
    for node in inner(scope):
        for block in (getattr(node, part, None) for part in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield block


def _overwritten(block: Sequence[ast.stmt], name: str) -> Iterator[ast.expr]:
    unread: ast.expr | None = None
    for node in block:
        if not isinstance(node, ast.Assign) or [*map(ast.unparse, node.targets)] != [name]:
            is_other = name not in _names(node)
            unread = unread if is_other else None
            continue
        if unread is not None and name not in names_in(node.value):
            yield unread
        unread = node.value if _is_computed(node.value) else None


def _of_last_turn(block: Sequence[ast.stmt], name: str) -> Iterator[ast.expr]:
    """The values of a loop's turns but the last, where backward comes behind the loop alone."""
    for i, loop in enumerate(block):
        if not isinstance(loop, LOOPS) or has_backward(loop):
            continue
        sets = [x for x in loop.body if isinstance(x, ast.Assign)]
        own = [x for x in sets if [*map(ast.unparse, x.targets)] == [name]]
        is_read = any(
            isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load)
            for x in inner(loop)
        )
        ends = any(isinstance(x, (ast.Break, ast.Return, ast.Yield)) for x in inner(loop))
        if len(own) != 1 or is_read or ends or isinstance(loop, ast.While) or _carries(loop):
            continue
        behind = _first_reader(block[i + 1 :], name)
        if behind is not None and has_backward(behind) and _is_computed(own[0].value):
            yield own[0].value


def _carries(loop: ast.For | ast.AsyncFor) -> bool:
    """True for turns that go on from the one before, of which the last may be all that counts."""
    changed = {name for node in loop.body for name in names_in(node, ast.Store)}
    now = names_in(loop.target, ast.Store)
    for node in loop.body:
        if (names_in(node) & changed) - now:
            return True
        now |= names_in(node, ast.Store)
    return False


def _first_reader(block: Sequence[ast.stmt], name: str) -> ast.stmt | None:
    return next((node for node in block if name in _names(node)), None)


def _names(node: ast.AST) -> set[str]:
    return {x.id for x in walked(node) if isinstance(x, ast.Name)}


def _is_computed(value: ast.expr) -> bool:
    """True for what a function makes, and no beginning as ``torch.zeros(1)``."""
    calls = [called(x) for x in walked(value) if isinstance(x, ast.Call)]
    return bool(calls) and not {"zeros", "tensor", "zeros_like", "float"} & {*calls}
