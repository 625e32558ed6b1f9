"""Losses of policies and preferences that code writes the other way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    called,
    calls_in,
    factors_of,
    has_backward,
    inner,
    minimized_in,
    names_in,
    scopes_of,
    signed_terms_of,
    statements_in,
)

_OLD = re.compile(r"(^|_)(old|behaviou?r|prev(ious)?|sampl(ed|er|ing)|rollout)(_|$)")
_LOST = re.compile(r"(^|_)(reject(ed|s)?|los(er?|ing|t)|l|neg(ative)?)(_|$)")
_WON = re.compile(r"(^|_)(chosen|accept(ed)?|w(in|on)?|winn(er|ing)|pos(itive)?)(_|$)")
_SIGMOIDS = frozenset("logsigmoid sigmoid log_sigmoid".split())


def turned_ratios(tree: ast.Module) -> Iterator[ast.expr]:
    """The ratios of probabilities of actions by the old policy to those by the new one.

    As ``ratio = torch.exp(old_log_prob - log_prob)``, told by the names alone.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "ratio" in ast.unparse(node.targets[0]).lower():
            exponent = _exponent(node.value)
            if not isinstance(exponent, ast.BinOp) or not isinstance(exponent.op, ast.Sub):
                continue
            if _is_named(exponent.left, _OLD) and not _is_named(exponent.right, _OLD):
                yield node.value


def turned_preferences(tree: ast.Module) -> Iterator[ast.expr]:
    """The margins of what is rejected over what is chosen in ``-logsigmoid(margin)``."""
    for scope in scopes_of(tree):
        margins = {
            name: node.value
            for node in statements_in(scope)
            if isinstance(node, ast.Assign)
            for name in names_in(node, ast.Store)
        }
        signs = (x for x in inner(scope) if isinstance(x, ast.UnaryOp))
        negated = (x.operand for x in signs if isinstance(x.op, ast.USub))
        for call in (x for one in negated for x in ast.walk(one) if isinstance(x, ast.Call)):
            if called(call) in _SIGMOIDS and call.args:
                sign, factors = factors_of(call.args[0])
                factors = [margins.get(ast.unparse(x), x) for x in factors]
                if sign > 0 and any(map(_is_of_the_lost, factors)):
                    yield call.args[0]


def _is_of_the_lost(margin: ast.expr) -> bool:
    """True for what was rejected less what was chosen, also of such differences."""
    if not isinstance(margin, ast.BinOp) or not isinstance(margin.op, ast.Sub):
        return False
    sides = [(_is_named(x, _LOST), _is_named(x, _WON)) for x in (margin.left, margin.right)]
    return sides == [(True, False), (False, True)] or _is_of_the_lost(margin.left)


def actions_drawn_again(tree: ast.Module) -> Iterator[ast.expr]:
    """The probabilities of actions that are drawn for them alone, and so never taken.

    In code that trains, or that draws others beside.
    """
    for scope in scopes_of(tree):
        calls = calls_in(scope)
        draws = [call for call in calls if called(call) == "sample"]
        for call in (x for x in calls if called(x) == "log_prob" and x.args):
            drawn = call.args[0]
            if drawn in draws:
                others = [ast.unparse(x) for x in draws if x is not drawn]
                if has_backward(scope) or ast.unparse(drawn) in others:
                    yield call


def turned_entropies(tree: ast.Module) -> Iterator[ast.expr]:
    """The entropies of policies that a loss adds, and so makes small."""
    for scope in scopes_of(tree):
        minimized = {ast.unparse(of) for of in minimized_in(scope)}
        if not (minimized and any(called(call) == "log_prob" for call in calls_in(scope))):
            continue
        sets = [node for node in statements_in(scope) if isinstance(node, ast.Assign)]
        entropies = {
            name for node in sets if _is_entropy(node.value) for name in names_in(node, ast.Store)
        }
        for node in sets:
            is_loss = not minimized.isdisjoint(map(ast.unparse, node.targets))
            for sign, term in signed_terms_of(node.value) if is_loss else ():
                factors = factors_of(term)[1]
                if sign > 0 and any(_is_entropy(x) or ast.unparse(x) in entropies for x in factors):
                    yield term


def _is_entropy(value: ast.expr) -> bool:
    """True for the entropy of a distribution, and its mean."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "entropy":
            return not value.args
        value = value.func.value
    return False


def _exponent(value: ast.expr) -> ast.expr | None:
    """The thing that an exponential is of; None of what is none."""
    if not isinstance(value, ast.Call) or called(value) != "exp":
        return None
    if value.args:
        return value.args[0]
    return value.func.value if isinstance(value.func, ast.Attribute) else None


def _is_named(node: ast.AST, name: re.Pattern[str]) -> bool:
    """True for what has a variable or attribute of such a name."""
    named = (
        x.id if isinstance(x, ast.Name) else x.attr if isinstance(x, ast.Attribute) else ""
        for x in ast.walk(node)
    )
    return any(name.search(one.lower()) for one in named)
