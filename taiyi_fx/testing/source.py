"""The source of what a test declares, with everything that it needs, to stand in a program."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_Scope = ast.AST  # a node with a body: a module, a function, a class, a block


@dataclass
class Excerpt:
    """Imports and definitions that a program needs, in the order in which they have to stand."""

    imports: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)

    def add(self, other: Excerpt) -> None:
        """Takes in another's, each text once."""
        for mine, theirs in ((self.imports, other.imports), (self.definitions, other.definitions)):
            mine.extend(text for text in theirs if text not in mine)


def excerpt_of(thing: Callable[..., Any]) -> tuple[str, Excerpt]:
    """The name that a function or class goes by in a program, and what to put before.

    What can be imported is imported. What a script, a notebook or a test declares is shown, with
    all of that file that it uses.
    """
    name = thing.__qualname__
    if _is_importable(thing):
        return name.partition(".")[0], Excerpt([f"from {thing.__module__} import {name}"])
    try:
        text = inspect.getsource(sys.modules[thing.__module__])
        line = inspect.getsourcelines(thing)[1]
    except (OSError, TypeError, KeyError):
        return name, Excerpt(definitions=[_only_source(thing)])
    path = _path_to(ast.parse(text), line)
    slicer = _Slicer(text, sys.modules[thing.__module__].__package__ or "")
    slicer.take(path[-1], path[:-1])
    return _bound_name(path[-1]) or name, slicer.excerpt


def _is_importable(thing: Callable[..., Any]) -> bool:
    home = thing.__module__
    is_test = any(p == "conftest" or p.startswith("test") for p in home.split("."))
    is_test = is_test and not home.startswith("taiyi_fx.")
    found = getattr(sys.modules.get(home), thing.__qualname__, None)
    return home not in ("__main__", "builtins") and not is_test and found is not None


def _only_source(thing: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(thing)).strip()
    except (OSError, TypeError):
        return f"# the definition of {thing.__qualname__} belongs here"


def _path_to(tree: ast.Module, line: int) -> list[ast.AST]:
    """From the module to the statement that begins in a line, decorators included."""
    path: list[ast.AST] = [tree]
    while True:
        inner = next((s for s in _body(path[-1]) if _first(s) <= line <= _last(s)), None)
        if inner is None:
            return path
        path.append(inner)
        if _first(inner) == line and not isinstance(inner, (ast.With, ast.If, ast.For, ast.Try)):
            return path


def _body(scope: ast.AST) -> list[ast.stmt]:
    return [s for name in ("body", "orelse", "finalbody") for s in _statements(scope, name)]


def _statements(scope: ast.AST, name: str) -> list[ast.stmt]:
    found = getattr(scope, name, [])
    return found if isinstance(found, list) else []


def _first(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _bound_name(node: ast.AST) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    return next(iter(_assigned(node)), None)


def _assigned(node: ast.AST) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Name):
                yield part.id


class _Slicer:
    """Takes statements out of a file, each after those whose names it uses."""

    def __init__(self, text: str, package: str) -> None:
        self.excerpt = Excerpt()
        self._text = text
        self._lines = text.splitlines()
        self._package = package
        self._taken: set[ast.AST] = set()

    def take(self, node: ast.AST, scopes: list[_Scope]) -> None:
        if node in self._taken or not isinstance(node, ast.stmt):
            return
        self._taken.add(node)
        for name in _names_in(node):
            self._take_name(name, scopes)
        lines = self._lines[_first(node) - 1 : _last(node)]
        self.excerpt.definitions.append(textwrap.dedent("\n".join(lines)))

    def _take_name(self, name: str, scopes: list[_Scope]) -> None:
        for depth in range(len(scopes), 0, -1):
            scope = scopes[depth - 1]
            if isinstance(scope, ast.ClassDef):
                continue
            for statement in _body(scope):
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    if self._imported(statement, name):
                        return
                elif name == _bound_name(statement) or name in _assigned(statement):
                    self.take(statement, scopes[:depth])
                    return

    def _imported(self, statement: ast.Import | ast.ImportFrom, name: str) -> bool:
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if bound != name:
                continue
            renamed = f" as {alias.asname}" if alias.asname else ""
            text = f"import {alias.name}{renamed}"
            if isinstance(statement, ast.ImportFrom):
                text = f"from {self._home(statement)} {text}"
            if text not in self.excerpt.imports:
                self.excerpt.imports.append(text)
            return True
        return False

    def _home(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        above = self._package.split(".")[: len(self._package.split(".")) - statement.level + 1]
        return ".".join([*above, *([statement.module] if statement.module else [])])


def _names_in(node: ast.AST) -> list[str]:
    used = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    own = {_bound_name(node)}
    return [n for n in dict.fromkeys(used) if n not in own]
