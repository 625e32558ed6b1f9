"""Parts of a batch that say what counts of it, and that the code which trains never reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Scope,
    has_backward,
    inner,
    names_in,
    scopes_of,
)

_TELLING = re.compile(
    r"(dones?|terminals?|terminated|terminations?|not_dones?|((\w+_)?(mask|lengths|lens))|masks|"
    r"(sample|importance|is|instance)_weights?)(_[bt]|_?batch)?"
)
"""Names of ends of episodes, of masks and lengths of sequences, and of weights of samples."""
_BY_NAME = frozenset({"locals", "vars", "eval", "exec"})
"""Functions by which any variable may be read."""


def unused_parts(tree: ast.Module) -> Iterator[ast.expr]:
    """The names that code which trains unpacks, that tell what counts of a batch, and are not read.

    Nothing is told of a name that is read anywhere in the same function, or in one within it.
    """
    for scope in scopes_of(tree):
        read = _read_in(scope) if has_backward(scope) else {*_BY_NAME}
        if read.isdisjoint(_BY_NAME):
            for name in _unpacked_in(scope):
                if _TELLING.fullmatch(name.id.lower()) and name.id not in read:
                    yield name


def _unpacked_in(scope: Scope) -> Iterator[ast.Name]:
    """The names that are set with others at once, by the first of their places."""
    found: dict[str, ast.Name] = {}
    for node in inner(scope):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        for tuple_ in (x for t in targets for x in ast.walk(t) if isinstance(x, ast.Tuple)):
            for one in tuple_.elts:
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, one)
    yield from found.values()


def _read_in(scope: Scope) -> set[str]:
    """The names that some code reads, also in functions in it that have none such of their own."""
    read = {x.id for x in inner(scope) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
    for node in ast.walk(scope):
        if node is not scope and isinstance(node, (*FUNCTIONS, ast.Lambda)):
            own = {argument.arg for argument in node.args.args} | names_in(node, ast.Store)
            read |= names_in(node) - own
    return read | _declared_in(scope)


def _declared_in(scope: Scope) -> set[str]:
    """The names that belong to code around it: who reads them is not known."""
    declared = (x.names for x in inner(scope) if isinstance(x, (ast.Global, ast.Nonlocal)))
    return {name for names in declared for name in names}
