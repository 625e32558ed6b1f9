"""Code whose temporary values are written where they are used, as readers look for expressions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import OWN, parsed, whose

_BODIES = ("body", "orelse", "finalbody")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_APART = (*OWN, *_COMPREHENSIONS, ast.While, ast.JoinedStr)
"""Code that may be run several times, or later, for one value; and texts, which are only shown."""


def forms_of(code: str) -> Iterator[ast.Module]:
    """The code as it is written, and with its temporary values written where they are used.

    With all of them, and with every other one: of ``a = f(x)``, ``b = g(a)``, ``return h(b)`` a
    reader may look for ``b`` by its name, or for ``a``, or for neither.

    Raises:
        SyntaxError: It is not Python's.
        RecursionError: It is nested beyond what can be read.
    """
    yield parsed(code)
    yield inlined(parsed(code))
    yield inlined(parsed(code), 0, 2)
    yield inlined(parsed(code), 1, 2)


def inlined(tree: ast.Module, first: int = 0, every: int = 1) -> ast.Module:
    """Writes values that are named for the next statement alone into it; changes the tree.

    ``kept = a * x`` before ``y = kept + b`` becomes ``y = a * x + b``, if nothing else sets or
    reads ``kept``; also further ahead, of what calls nothing and of which nothing is set meanwhile.
    Each part keeps its line.

    Args:
        tree: The code.
        first: The place of the first such value of a block that is written, among all of them.
        every: From there on each second one, or third. Those that are left may be what a statement
            is of, as of ``loss.backward()``: of such it is done where each is written.
    """
    _inline(tree, _once_in(tree), slice(first, None, every))
    return tree


def _inline(node: ast.AST, once: frozenset[str], places: slice) -> None:
    """Does so in all that a node has in it, by the names that are set and read once."""
    for child in ast.iter_child_nodes(node):
        _inline(child, _once_in(child) if isinstance(child, OWN) else once, places)
    for body in _bodies_of(node):
        named = [(i, *pair) for i, x in enumerate(body) if (pair := _named(x)) and pair[0] in once]
        for i, name, value in reversed(named[places]):
            behind = body[i + 1 :]
            if (places.step == 1 or not _are_of(name, behind)) and _put(name, value, behind):
                del body[i]


def _once_in(scope: ast.AST) -> frozenset[str]:
    """The names of variables that are set once in some code, and read once."""
    names = [x for x in ast.walk(scope) if isinstance(x, ast.Name)]
    read = Counter(x.id for x in names if isinstance(x.ctx, ast.Load))
    others = Counter(x.id for x in names if not isinstance(x.ctx, ast.Load))
    elsewhere = (x for x in ast.walk(scope) if isinstance(x, (ast.Global, ast.Nonlocal)))
    told = {name for x in elsewhere for name in x.names}
    return frozenset(name for name, n in others.items() if n == 1 == read[name]) - told


def _bodies_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in _BODIES:
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body


def _named(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name that a statement gives to a value, and the value; None of others."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    is_plain = not isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await))
    return (target.id, value) if isinstance(target, ast.Name) and is_plain else None


def _put(name: str, value: ast.expr, behind: list[ast.stmt]) -> bool:
    """Writes a value in place of its name in one of the statements behind it; False if in none."""
    calls = any(isinstance(x, ast.Call) for x in ast.walk(value))
    parts = _names_in(value)
    for statement in behind:
        if name in _names_in(statement):
            return _Writer(name, value).has_written(statement)
        if calls or parts & _names_in(statement, ast.Store):
            return False
    return False


def _names_in(node: ast.AST, kind: type[ast.expr_context] = ast.Load) -> set[str]:
    """The names of variables that some code reads, or sets, as it is now."""
    names = (x for x in ast.walk(node) if isinstance(x, ast.Name))
    return {x.id for x in names if isinstance(x.ctx, kind)}


def _are_of(name: str, statements: list[ast.stmt]) -> bool:
    """True if one is like ``loss.backward()``: what such a statement is of goes by its name."""
    calls = [x.value for x in statements if isinstance(x, ast.Expr)]
    return name in {whose(x).partition(".")[0] for x in calls if isinstance(x, ast.Call)}


class _Writer(ast.NodeTransformer):
    """Writes a value in place of a name, where a statement reads it itself, and once."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self._name = name
        self._value = value
        self._is_written = False

    def has_written(self, statement: ast.stmt) -> bool:
        """True if it could; the statement is changed."""
        if not isinstance(statement, _APART):
            self.generic_visit(statement)
        return self._is_written

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name) and node.id == self._name:
            self._is_written = True
            return self._value
        return node if isinstance(node, (ast.stmt, *_APART)) else self.generic_visit(node)
