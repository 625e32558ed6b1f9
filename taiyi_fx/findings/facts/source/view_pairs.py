"""Views of samples that are put one beside the other, and looked for half a batch further on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called, walked

_HALVES = re.compile(
    r"\+ \w+ // 2\) % \w+"
    r"|cat\(\[torch\.arange\((\w+), 2 \* \1\), torch\.arange\(\1\)\]"
    r"|cat\(\[torch\.arange\(\w+\) \+ \w+, torch\.arange\(\w+\)\]"
)
"""Places of the other view, in a batch of all first views and all second ones behind them."""
_NEIGHBOURS = re.compile(r"arange\([^()]*\) \^ 1")
"""The same where the two views of a sample are neighbours."""


def mispaired_views(tree: ast.Module) -> Iterator[ast.expr]:
    """The batches of two views whose order is not that in which a loss looks for pairs.

    As ``stack([augment(x), augment(x)], 1).flatten(0, 1)``, neighbours, beside ``(arange(n) + n //
    2) % n``, and ``cat([augment(x), augment(x)])`` beside ``arange(n) ^ 1``.
    """
    code = ast.unparse(tree)
    are_halves, are_neighbours = bool(_HALVES.search(code)), bool(_NEIGHBOURS.search(code))
    if are_halves == are_neighbours:
        return
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_joined = called(call) in ("flatten", "reshape", "view") and _is_of_two(of, "stack")
        if are_halves and is_joined and isinstance(of, ast.Call) and _axis_of(of) == "1":
            yield call
        if are_neighbours and _is_of_two(call, "cat") and _axis_of(call) == "0":
            yield call


def _is_of_two(value: ast.expr | None, function: str) -> bool:
    """True for a function of a list of two calls of one function of the same."""
    if not isinstance(value, ast.Call) or called(value) != function or not value.args:
        return False
    given = value.args[0]
    both = given.elts if isinstance(given, (ast.List, ast.Tuple)) else []
    are_calls = len(both) == 2 and all(isinstance(x, ast.Call) for x in both)
    return are_calls and ast.unparse(both[0]) == ast.unparse(both[1])


def _axis_of(call: ast.Call) -> str:
    told = [ast.unparse(x.value) for x in call.keywords if x.arg in ("dim", "axis")]
    told += [ast.unparse(x) for x in call.args[1:2]]
    return told[0] if told else "0"
