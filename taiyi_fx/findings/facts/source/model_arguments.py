"""Arguments that code gives a model in another order than its forward has them, by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import combinations

from taiyi_fx.findings.facts.source.syntax import made_by, walked

_MODELS = frozenset({"model", "net", "network", "watched", "instrumented"})
"""What a model is called, also as an attribute, where the file does not say which one it is."""
_SHORTEST = 2
"""Letters of a name that says which argument it is."""


def swapped_in_calls(tree: ast.Module, arguments: Sequence[str]) -> Iterator[ast.expr]:
    """The calls of the model with two variables, each of which has the name of the other's place.

    Args:
        tree: The code.
        arguments: The names of the forward's arguments, in their order.
    """
    known = set(_MODELS)
    for name, call in made_by(("instrument",), walked(tree)):
        known |= {name, *(ast.unparse(given) for given in call.args[:1])}
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        is_model = ast.unparse(call.func).removeprefix("self.") in known
        if is_model and _are_swapped(call.args, arguments):
            yield call


def _are_swapped(given: Sequence[ast.expr], arguments: Sequence[str]) -> bool:
    names = [x.id if isinstance(x, ast.Name) else "" for x in given]
    pairs = [*zip(names, arguments, strict=False)]
    return not any(isinstance(x, ast.Starred) for x in given) and any(
        name != own and len(name) >= _SHORTEST and (name, own) == (of_other, other)
        for (name, own), (other, of_other) in combinations(pairs, 2)
    )
