"""Functions as syntax: found by their code, and what their names and attributes are."""

from __future__ import annotations

import ast
import functools
import linecache
from collections import Counter
from collections.abc import Sequence
from types import CodeType

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Refusal(Exception):
    """What a function does that a trace would lose, and the line where it does."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Unbound(Refusal):
    """A variable that has no value by now, so that what was read of it cannot be checked."""


def rebound(body: Sequence[ast.AST]) -> frozenset[str]:
    """Names that a function gives more than one value."""
    stored: Counter[str] = Counter()
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            stored[node.id] += 1
        if isinstance(node, (ast.For, ast.comprehension)):
            targets = (n for n in ast.walk(node.target) if isinstance(n, ast.Name))
            stored.update(n.id for n in targets)
    return frozenset(name for name, times in stored.items() if times > 1)


def chain_of(node: ast.Attribute) -> tuple[list[str], ast.expr, bool]:
    """The attributes of ``a.b[0].c`` from the last to the first, its root, and if it is indexed."""
    chain, base, indexed = [node.attr], node.value, False
    while isinstance(base, (ast.Attribute, ast.Subscript)):
        if isinstance(base, ast.Attribute):
            chain.append(base.attr)
        indexed = indexed or isinstance(base, ast.Subscript)
        base = base.value
    return chain, base, indexed


def is_super(node: ast.expr) -> bool:
    """Whether an expression is a call of ``super``."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


@functools.lru_cache(maxsize=4096)
def definitions(code: CodeType) -> tuple[Function, ...]:
    """The function's syntax tree (every candidate, where several lambdas share a line)."""
    tree = _syntax(code.co_filename)
    if tree is None:
        raise Refusal("has no source to check", code.co_firstlineno)
    found = tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and first_line(node) == code.co_firstlineno
    )
    if not found:
        raise Refusal("has no source to check", code.co_firstlineno)
    return found


@functools.lru_cache(maxsize=256)
def _syntax(filename: str) -> ast.Module | None:
    lines = linecache.getlines(filename)
    try:
        return ast.parse("".join(lines)) if lines else None
    except SyntaxError:  # the code is a block of a text
        return None


def first_line(node: Function) -> int:
    """Where a function begins, its decorators included."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(d.lineno for d in decorators)])
