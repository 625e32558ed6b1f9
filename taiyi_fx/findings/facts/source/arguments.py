"""Arguments of functions of torch that code gives in another order, as their names tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from taiyi_fx.findings.facts.source.syntax import called

_MADE = (
    r"(^|_)(preds?|predict(ed|ion|ions)|logits?|outputs?|out|scores?|recon|y_hat|x_hat|y_pred)(_|$)"
)
_ASKED = r"(^|_)(targets?|labels?|y_true|truth|gt|y)(_|$)"
_LOGARITHM, _SHARES = r"^log|_log|log_", r"^(?!.*log)"
_ORDERS = {
    "binary_cross_entropy": (_MADE, _ASKED),
    "binary_cross_entropy_with_logits": (_MADE, _ASKED),
    "gaussian_nll_loss": (r"^(mean|mu|loc)|pred|_mean$", _ASKED, r"var|sigma"),
    "kl_div": (_LOGARITHM, _SHARES),
    "ctc_loss": (
        r"log|prob",
        r"^(?!.*len)(.*(target|label|tgt))",
        r"(input|logit|x|frame|in)\w*_?len|^(?!.*(target|label|tgt|y_)).*len",
        r"(target|label|tgt|y)\w*_?len",
    ),
    "triplet_margin_loss": (r"anchor|^a$", r"(^|_)pos", r"(^|_)neg"),
    "scaled_dot_product_attention": (r"(^|_)q", r"(^|_)k", r"(^|_)v"),
    "Normal": (r"^(mean|mu|loc)$|_(mean|mu)$", r"^(std|sigma|scale)$|_(std|sigma)$"),
}
"""The names of each function's arguments, in their order."""


def swapped_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls with two arguments, each of which has the name of the other's place alone."""
    for call in (x for x in ast.walk(tree) if isinstance(x, ast.Call)):
        order = _ORDERS.get(called(call))
        names = [*map(_name_of, call.args[: len(order)])] if order else []
        is_plain = not any(isinstance(x, ast.Starred) for x in call.args)
        if order and is_plain and "log_target" not in {x.arg for x in call.keywords}:
            places = combinations(range(len(names)), 2)
            if any(_is_swapped(names, order, i, j) for i, j in places):
                yield call


def _is_swapped(names: list[str], order: tuple[str, ...], i: int, j: int) -> bool:
    first, second = names[i], names[j]
    if not first or not second:
        return False
    is_other = re.search(order[j], first) and re.search(order[i], second)
    return bool(is_other) and not (re.search(order[i], first) or re.search(order[j], second))


def _name_of(given: ast.expr) -> str:
    """The last name of an argument, also behind an index or a method; empty of what has none."""
    while True:
        if isinstance(given, ast.Subscript):
            given = given.value
        elif isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
            given = given.func.value
        elif isinstance(given, ast.Attribute):
            return given.attr.lower()
        else:
            return given.id.lower() if isinstance(given, ast.Name) else ""
