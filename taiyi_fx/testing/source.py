"""The source of what a test declares, with everything that it needs, to stand in a program.

The definition is cut out of its file by names: with it come the statements that bind a name used in
it, those that bind a name used in these, and so on, all in the order in which they stand. That is a
little more than is needed where two scopes have the same name, and never less, but for what a file
does without binding a name.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Excerpt:
    """The imports and definitions that a program needs to use a function or a class.

    Attributes:
        name: Its name there.
        imports: Statements, of one name each.
        definitions: Statements, in the order in which they have to stand.
    """

    name: str
    imports: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)


def excerpt_of(thing: Callable[..., Any]) -> Excerpt:
    """The import of a function or class, or its definition where a script or a test declares it."""
    name = getattr(thing, "__qualname__", repr(thing))
    if _is_importable(thing, name):
        return Excerpt(name, [f"from {_home(thing.__module__, name)} import {name}"])
    try:
        lines, index = inspect.findsource(thing)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError):
        return Excerpt(name, definitions=[f"# the definition of {name} belongs here"])
    visible = list(_visible(tree, index + 1))
    own = next(
        s for s in visible if s.lineno <= index + 1 <= (s.end_lineno or 0) or _first(s) == index + 1
    )
    taken, names = _slice(visible, own)
    package = getattr(sys.modules.get(thing.__module__), "__package__", None) or ""
    imports = [text for s in taken for text in _import_texts(s, names, package)]
    definitions = [s for s in taken if not isinstance(s, (ast.Import, ast.ImportFrom))]
    bound = [own.name] if isinstance(own, _NAMED) else sorted(_bound(own))
    return Excerpt(bound[0] if bound else name, imports, [_text(s, lines) for s in definitions])


def _is_importable(thing: Callable[..., Any], name: str) -> bool:
    home = thing.__module__
    is_test = any(p == "conftest" or p.startswith("test") for p in home.split("."))
    is_test = is_test and not home.startswith("taiyi_fx.")
    is_there = getattr(sys.modules.get(home), name, None) is not None
    return home not in ("__main__", "builtins") and not is_test and is_there


def _home(module: str, name: str) -> str:
    """The module to import a name from: the public one, if it is a public name of the kit."""
    kit = __name__.rpartition(".")[0]
    return kit if module.startswith(kit) and name in vars(sys.modules[kit]) else module


_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _visible(scope: ast.AST, line: int) -> Iterator[ast.stmt]:
    """The statements of all scopes around a line, outer ones first, and that which begins there."""
    around = None
    for statement in ast.iter_child_nodes(scope):
        if not isinstance(statement, ast.stmt):
            continue
        if _first(statement) < line <= (statement.end_lineno or 0):
            around = statement
        elif _first(statement) == line or not isinstance(scope, ast.ClassDef):
            yield statement
    if around is not None:
        yield from list(_visible(around, line)) or [around]


def _first(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _slice(visible: list[ast.stmt], own: ast.stmt) -> tuple[list[ast.stmt], set[str]]:
    """The statements that a statement needs, itself included, and all names in them."""
    names = {"*", "annotations"}  # imports whose names stand nowhere
    taken, new = set(), {own}
    while new:
        taken |= new
        names |= {n.id for s in new for n in ast.walk(s) if isinstance(n, ast.Name)}
        new = {s for s in visible if s not in taken and _bound(s) & names}
    return [s for s in visible if s in taken], names


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, _NAMED):
        return {statement.name}
    parts = list(ast.walk(statement))
    names = {n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names | {_alias(n) for n in parts if isinstance(n, ast.alias)}


def _alias(imported: ast.alias) -> str:
    return imported.asname or imported.name.partition(".")[0]


def _import_texts(statement: ast.stmt, names: set[str], package: str) -> Iterator[str]:
    """An import as one statement for each of its names that are used, none of them relative."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return
    for imported in statement.names:
        if _alias(imported) not in names:
            continue
        if isinstance(statement, ast.Import):
            yield ast.unparse(ast.Import([imported]))
        else:
            home = "." * statement.level + (statement.module or "")
            home = importlib.util.resolve_name(home, package)
            yield ast.unparse(ast.ImportFrom(home, [imported], 0))


def _text(statement: ast.stmt, lines: list[str]) -> str:
    return textwrap.dedent("".join(lines[_first(statement) - 1 : statement.end_lineno])).rstrip()
