"""The parts of code that readers of training loops look for: scopes, loops, calls, what is set."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TypeAlias

LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OWN = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
"""Code within other code that runs by itself."""
_SETTINGS = frozenset("args cfg config conf opt opts options hparams hp params flags self".split())
"""Names of what holds settings."""
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | Function


def scopes_of(tree: ast.Module) -> list[Scope]:
    """The code of a file that runs as it is read, and all functions and methods."""
    return [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """All in some code, but for what is in functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, OWN):
            yield child
            yield from inner(child)


def statements_in(scope: ast.AST) -> list[ast.stmt]:
    """The statements of some code in the order of their lines, without those of others in it."""
    found = [node for node in inner(scope) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda node: node.lineno)


def calls_in(scope: ast.AST) -> list[ast.Call]:
    """The calls in some code, likewise."""
    found = [node for node in inner(scope) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def loops_in(scope: ast.AST) -> Iterator[Loop]:
    """The loops in some code, likewise."""
    return (node for node in inner(scope) if isinstance(node, LOOPS))


def called(call: ast.Call) -> str:
    """The last name of what is called, as ``"backward"`` of ``loss.backward()``; else empty."""
    of = call.func
    return of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")


def names_in(node: ast.AST, kind: type[ast.expr_context] = ast.Load) -> set[str]:
    """The names of variables that some code reads; or sets, by `ast.Store`."""
    names = (x for x in ast.walk(node) if isinstance(x, ast.Name))
    return {x.id for x in names if isinstance(x.ctx, kind)}


def values_in(scope: Scope) -> dict[str, list[ast.expr]]:
    """All values that a scope gives to each name."""
    found: dict[str, list[ast.expr]] = {}
    for node in (x for x in statements_in(scope) if isinstance(x, ast.Assign)):
        for target in node.targets:
            for name, value in _pairs(target, node.value):
                found.setdefault(name, []).append(value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for one, its in zip(target.elts, values, strict=False):
            yield from _pairs(one, its)


def has_backward(scope: ast.AST) -> bool:
    """True for code with a call of backward in it, but for that of functions in it."""
    return any(called(call) in ("backward", "manual_backward") for call in calls_in(scope))


def minimized_in(scope: ast.AST) -> Iterator[ast.expr]:
    """All of which ``backward`` is called, as it is or scaled."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if node.func.attr == "backward":
                yield of
                yield from of.args if isinstance(of, ast.Call) else ()
            if node.func.attr in ("backward", "manual_backward"):
                yield from node.args[:1]


def added_up(node: ast.stmt, minimized: Collection[str]) -> ast.expr | None:
    """The value that a statement gives to what is minimized, or adds to it; None of others."""
    if isinstance(node, ast.Assign):
        is_loss = not {*minimized}.isdisjoint(map(ast.unparse, node.targets))
        return node.value if is_loss else None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.value if ast.unparse(node.target) in minimized else None
    return None


def whose(call: ast.Call) -> str:
    """The thing of which a method is called, as ``"optimizer"``; empty of a plain function."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def terms_of(value: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum; a thing that is no sum is its own."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from terms_of(value.left)
        yield from terms_of(value.right)
    else:
        yield value


def is_number(value: ast.expr) -> bool:
    """True for a number that is written down."""
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))


def is_setting(value: ast.expr) -> bool:
    """True for a number that is written down, a constant by its name, and what settings hold."""
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) and value.value.id in _SETTINGS
    return is_number(value) or (isinstance(value, ast.Name) and value.id.isupper())


def factors_of(value: ast.expr) -> tuple[int, list[ast.expr]]:
    """The sign of a product, 1 or -1, and its factors; a thing that is no product is its own."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, factors = factors_of(value.operand)
        return -sign, factors
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        (a, left), (b, right) = factors_of(value.left), factors_of(value.right)
        return a * b, [*left, *right]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return factors_of(value.left)
    return 1, [value]


def signed_terms_of(value: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """The terms of a sum, each with the sign that it has in it."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from signed_terms_of(value.left, sign)
        yield from signed_terms_of(value.right, -sign if isinstance(value.op, ast.Sub) else sign)
    elif isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        yield from signed_terms_of(value.operand, -sign)
    else:
        own, factors = factors_of(value)
        yield sign * own, factors[0] if len(factors) == 1 else value
