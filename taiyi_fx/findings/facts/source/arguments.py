"""Arguments of functions of torch that code gives in another order, as their names tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from taiyi_fx.findings.facts.source.syntax import (
    Scope,
    called,
    calls_in,
    made_by,
    scopes_of,
    statements_in,
    values_in,
    walked,
)

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
_CLASSES = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "KLDivLoss": "kl_div",
    "CTCLoss": "ctc_loss",
    "TripletMarginLoss": "triplet_margin_loss",
}
"""The functions of torch's losses that are objects."""


def swapped_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls with two arguments, each of which has the name of the other's place alone.

    A name that says nothing stands for that of what it was made of, as in ``p = net(positive)``.
    """
    objects = _objects_in(tree)
    for scope in scopes_of(tree):
        sources = _sources_in(scope)
        for call in calls_in(scope):
            order = _ORDERS.get(objects.get(ast.unparse(call.func), called(call)), ())
            is_plain = not any(isinstance(x, ast.Starred) for x in call.args)
            if order and is_plain and "log_target" not in {x.arg for x in call.keywords}:
                names = [*map(_name_of, call.args[: len(order)])]
                names = [x if _tells(x, order) else sources.get(x, "") for x in names]
                places = combinations(range(len(names)), 2)
                if any(_is_swapped(names, order, i, j) for i, j in places):
                    yield call


def _tells(name: str, order: tuple[str, ...]) -> bool:
    return any(re.search(one, name) for one in order)


def _objects_in(tree: ast.Module) -> dict[str, str]:
    """The functions of torch that objects stand for which the file makes, by what they are called.

    Not of those with settings of their own, as a ``log_target``.
    """
    return {
        name: _CLASSES[called(call)]
        for name, call in made_by(_CLASSES, walked(tree))
        if "log_target" not in {x.arg for x in call.keywords}
    }


def _sources_in(scope: Scope) -> dict[str, str]:
    """The names of what is made by one call of another name, as ``a`` of ``net(anchor)``.

    Empty of a name that is made of several.
    """
    found: dict[str, str] = {}
    for name, values in values_in(statements_in(scope)).items():
        calls = [x.args if isinstance(x, ast.Call) else [] for x in values]
        of = {_name_of(given[0]) if len(given) == 1 else "" for given in calls}
        found[name.lower()] = of.pop() if len(of) == 1 else ""
    return found


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
