"""The code of a file that runs: some functions, and all that these name."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, OWN, Function, walked

MODULE = 0
"""The line that stands for code outside of all functions."""


class Reach:
    """The lines of a file that run, as far as names tell.

    Args:
        tree: The file's syntax.
        running: The first lines of the functions that run now, with their decorators; `MODULE` of
            the file's own code.
    """

    def __init__(self, tree: ast.Module, running: Collection[int]) -> None:
        self._is_module = MODULE in running
        self._functions = [node for node in walked(tree) if isinstance(node, FUNCTIONS)]
        classes = [node for node in walked(tree) if isinstance(node, ast.ClassDef)]
        by_name: dict[str, list[Function]] = {}
        for node in self._functions:
            by_name.setdefault(node.name, []).append(node)
        for node in classes:
            methods = (x for x in node.body if isinstance(x, FUNCTIONS))
            by_name.setdefault(node.name, []).extend(methods)
        waiting = [node for node in self._functions if _first_line(node) in running]
        names = _named_in(_outside(tree)) if self._is_module else set[str]()
        self._reached: set[int] = set()
        while waiting or names:
            waiting += [node for name in names for node in by_name.get(name, [])]
            new = {id(node): node for node in waiting if id(node) not in self._reached}
            self._reached |= new.keys()
            names = {name for node in new.values() for name in _named_in([node])}
            waiting = []
            if not new:
                break

    def __contains__(self, line: object) -> bool:
        """True for a line of code that runs."""
        around = [x for x in self._functions if _has(x, line)]
        return any(id(x) in self._reached for x in around) if around else self._is_module


def _has(node: Function, line: object) -> bool:
    return isinstance(line, int) and _first_line(node) <= line <= (node.end_lineno or node.lineno)


def _first_line(node: Function) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _outside(tree: ast.Module) -> Iterator[ast.AST]:
    """The code outside of all functions and classes."""
    return (node for node in tree.body if not isinstance(node, OWN))


def _named_in(nodes: Iterator[ast.AST] | list[Function]) -> set[str]:
    """The names of variables and attributes in some code."""
    every = [x for node in nodes for x in walked(node)]
    names = {x.id for x in every if isinstance(x, ast.Name)}
    return names | {x.attr for x in every if isinstance(x, ast.Attribute)}
