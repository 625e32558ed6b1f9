"""Numbers that were kept of each batch, and are taken by its number from a loader that shuffles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called, has_backward, made_by, walked

_KEPT = re.compile(
    r"cache|teacher|logit|target|soft|label|feat|embed|stored|saved|precomp|pseudo|hidden"
)
"""Names of what was computed of samples before."""


def taken_by_number(tree: ast.Module) -> Iterator[ast.expr]:
    """The things that a loop takes by a batch's number, as ``cached[i]``, of one that is shuffled.

    Not of what the loop itself keeps under that number.
    """
    loaders = {name for name, call in made_by(("DataLoader",), walked(tree)) if _shuffles(call)}
    for loop in (x for x in walked(tree) if isinstance(x, ast.For) and has_backward(x)):
        number = _number_in(loop, loaders)
        taken = [x for x in walked(loop) if isinstance(x, ast.Subscript)] if number else []
        by_number = [x for x in taken if ast.unparse(x.slice) == number]
        kept = {ast.unparse(x.value) for x in by_number if isinstance(x.ctx, ast.Store)}
        for one in by_number:
            of = ast.unparse(one.value)
            if of not in kept and _KEPT.search(of.lower()):
                yield one


def _shuffles(call: ast.Call) -> bool:
    told = [ast.unparse(x.value) for x in call.keywords if x.arg == "shuffle"]
    return told == ["True"]


def _number_in(loop: ast.For, loaders: set[str]) -> str:
    """The name of a batch's number, in a loop over all batches of one of some loaders."""
    over, target = loop.iter, loop.target
    is_counted = isinstance(over, ast.Call) and called(over) == "enumerate" and len(over.args) == 1
    if not is_counted or not isinstance(target, ast.Tuple) or not isinstance(over, ast.Call):
        return ""
    return ast.unparse(target.elts[0]) if ast.unparse(over.args[0]) in loaders else ""
