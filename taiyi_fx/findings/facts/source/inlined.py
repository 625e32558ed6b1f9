"""Code whose temporary values, and functions, are written where they are used.

A reader looks for an expression, and people give names to its parts.
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.syntax import OWN, blocks_of, parsed, whose

_LONG, _LARGE = 12, 400
"""The statements of a function that may be an expression, and the parts of one that is written."""
_PLACES = ((0, 1), (0, 2), (1, 2))
"""The first value of a block that is written, and how many come from one to the next."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_APART = (*OWN, *_COMPREHENSIONS, ast.While, ast.JoinedStr)
"""Code that may be run several times, or later, for one value; and texts, which are only shown."""


def forms_of(code: str) -> Iterator[ast.Module]:
    """The code as it is written, and with its temporary values written where they are used.

    With all of them, and with every other one: of ``a = f(x)``, ``b = g(a)``, ``return h(b)`` a
    reader may look for ``b`` by its name, or for ``a``, or for neither. Then likewise with what
    functions return in place of their calls. What is nested too deep for that is as it is written.

    Raises:
        SyntaxError: It is not Python's.
        RecursionError: It is nested beyond what can be read.
    """
    yield parsed(code)
    for first, every in _PLACES:
        with contextlib.suppress(RecursionError):
            yield inlined(parsed(code), first, every)
        with contextlib.suppress(RecursionError):
            yield inlined(with_bodies(parsed(code)), first, every)


def with_bodies(tree: ast.Module) -> ast.Module:
    """Writes what functions of the file return in place of calls of them; changes the tree.

    Of functions that do nothing but return an expression of their arguments, once temporary values
    are written where they are used; of methods where they are called of ``self``.
    """
    methods = {
        id(x) for kind in ast.walk(tree) if isinstance(kind, ast.ClassDef) for x in kind.body
    }
    every = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and id(x) not in methods]
    return _Bodies(_returning(every)).visit(tree)


class _Returning(NamedTuple):
    """A function that does nothing but return an expression.

    Attributes:
        names: Those of its arguments.
        value: The expression.
    """

    names: Sequence[str]
    value: ast.expr


def _returning(functions: Iterable[ast.FunctionDef]) -> dict[str, _Returning]:
    """Those of some functions that do nothing else, by name; none of a name that several have."""
    found: dict[str, list[_Returning | None]] = {}
    for one in functions:
        found.setdefault(one.name, []).append(_as_returning(one))
    alone = {name: known[0] for name, known in found.items() if len(known) == 1}
    return {name: known for name, known in alone.items() if known is not None}


def _as_returning(function: ast.FunctionDef) -> _Returning | None:
    told = function.args
    is_plain = not (function.decorator_list or told.vararg or told.kwarg or told.kwonlyargs)
    if not is_plain or len(function.body) > _LONG:
        return None
    body = [x for x in copy.deepcopy(function.body) if not _is_text(x)]
    _inline(ast.Module(body, []), _once_in(function), slice(None, None, 1))
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    return _Returning([one.arg for one in (*told.posonlyargs, *told.args)], body[0].value)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class _Bodies(ast.NodeTransformer):
    """Writes what functions return in place of calls of them."""

    def __init__(self, functions: Mapping[str, _Returning]) -> None:
        self._functions = functions

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        outer = self._functions
        methods = _returning(x for x in node.body if isinstance(x, ast.FunctionDef))
        own = {f"self.{name}": x._replace(names=x.names[1:]) for name, x in methods.items()}
        self._functions = {**outer, **own}
        self.generic_visit(node)
        self._functions = outer
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = self._functions.get(ast.unparse(node.func)) if _is_short(node.func) else None
        given = None if function is None else _given(function.names, node)
        if function is None or given is None:
            return node
        made = _Arguments(given).visit(copy.deepcopy(function.value))
        return made if _size(made) <= _LARGE else node


def _is_short(function: ast.expr) -> bool:
    """True for ``f`` and ``self.f``."""
    of = function.value if isinstance(function, ast.Attribute) else function
    return isinstance(of, ast.Name) and (of is function or of.id == "self")


def _given(names: Sequence[str], call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of a call by their names; None where it leaves some to their defaults."""
    given = dict(zip(names, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg is not None}
    is_whole = given.keys() == {*names} and len(given) == len(call.args) + len(call.keywords)
    return given if is_whole and not any(isinstance(x, ast.Starred) for x in call.args) else None


class _Arguments(ast.NodeTransformer):
    """Writes arguments in place of their names."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_read = isinstance(node.ctx, ast.Load)
        return copy.deepcopy(self._given.get(node.id, node)) if is_read else node


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
    for body in blocks_of(node):
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


def _named(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name that a statement gives to a value, and the value; None of others."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    is_plain = not isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await))
    return (target.id, value) if isinstance(target, ast.Name) and is_plain else None


def _put(name: str, value: ast.expr, behind: list[ast.stmt]) -> bool:
    """Writes a value in place of its name in one of the statements behind it; False if in none."""
    if _size(value) > _LARGE:
        return False
    calls = any(isinstance(x, ast.Call) for x in ast.walk(value))
    parts = _names_in(value)
    for statement in behind:
        if name in _names_in(statement):
            return _Writer(name, value).has_written(statement)
        if calls or parts & _names_in(statement, ast.Store):
            return False
    return False


def _size(value: ast.expr) -> int:
    return sum(1 for _ in ast.walk(value))


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
