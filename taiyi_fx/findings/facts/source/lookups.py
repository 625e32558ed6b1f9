"""Embeddings that code gives the indices of another one, as the names of both tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, walked

_SHORTEST = 3
"""Letters of a name that says what it is of."""


class _Lookup(NamedTuple):
    """A call of an embedding with an argument of the function around it, as it is."""

    table: str
    given: str
    call: ast.Call


def foreign_lookups(tree: ast.Module, embeddings: Collection[str]) -> Iterator[ast.expr]:
    """The calls such as ``self.item_embedding(user)``, beside ``self.user_embedding(user)``.

    An embedding whose name has that of another argument in it, and not that of its own, where
    another embedding has the name of that one.

    Args:
        tree: The code of a method.
        embeddings: The names of the module's embeddings.
    """
    for function in (x for x in walked(tree) if isinstance(x, FUNCTIONS)):
        every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = {x.arg for x in every if len(_stem(x.arg)) >= _SHORTEST}
        known = [*_lookups_in(function, embeddings, names)]
        for one in known:
            others = names - {one.given}
            has_own = any(x.given == one.given and _is_of(x.table, x.given) for x in known)
            is_of_other = any(_is_of(one.table, other) for other in others)
            if has_own and is_of_other and not _is_of(one.table, one.given):
                yield one.call


def _lookups_in(
    function: ast.AST, embeddings: Collection[str], names: Collection[str]
) -> Iterator[_Lookup]:
    for call in (x for x in walked(function) if isinstance(x, ast.Call)):
        of, given = call.func, call.args[:1]
        if not isinstance(of, ast.Attribute) or of.attr not in embeddings or not given:
            continue
        name = given[0].id if isinstance(given[0], ast.Name) else ""
        if ast.unparse(of.value) == "self" and name in names:
            yield _Lookup(of.attr, name, call)


def _is_of(table: str, name: str) -> bool:
    """True for an embedding with a name in its own, as ``"user_bias"`` has that of ``users``."""
    return _stem(name) in {word.removesuffix("s") for word in table.lower().split("_")}


def _stem(name: str) -> str:
    """The thing that a name is of: ``"user"`` of ``user_ids``, ``users`` and ``user``."""
    words = name.lower().split("_")
    while len(words) > 1 and words[-1] in ("id", "ids", "idx", "index", "indices"):
        words.pop()
    return words[-1].removesuffix("s")
