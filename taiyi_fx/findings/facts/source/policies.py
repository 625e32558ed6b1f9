"""Losses of policies and preferences that code writes the other way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TypeGuard

from taiyi_fx.findings.facts.source.syntax import (
    called,
    calls_in,
    factors_of,
    given_in,
    has_backward,
    inner,
    method_of,
    minimized_in,
    names_in,
    scopes_of,
    signed_terms_of,
    statements_in,
    values_in,
    walked,
)

_OLD = re.compile(r"(^|_)(old|behaviou?r|prev(ious)?|sampl(ed|er|ing)|rollout)(_|$)")
_LOST = re.compile(r"(^|_)(reject(ed|s)?|los(er?|ing|t)|l|neg(ative)?)(_|$)")
_WON = re.compile(r"(^|_)(chosen|accept(ed)?|w(in|on)?|winn(er|ing)|pos(itive)?)(_|$)")
_LIKELY = re.compile(r"log_?p(i|rob)?s?\b|log_?probs?|^logp")
_GOOD = re.compile(r"(^|_)(adv(antages?)?|returns?|rewards?|rtg)(_|$)")
_END = re.compile(r"(is_)?(dones?|terminated|terminals?)(_[bt]|_batch)?")
_DISCOUNT = re.compile(r"gamma|discount(_factor)?")
_STORES = frozenset("append add push store put remember".split())
_MEANS = frozenset("mean sum squeeze view reshape clamp to float".split())
"""Functions of entropies that are large where these are."""
_SIGMOIDS = frozenset("logsigmoid sigmoid log_sigmoid".split())


def turned_ratios(tree: ast.Module) -> Iterator[ast.expr]:
    """The ratios of probabilities of actions by the old policy to those by the new one.

    As ``ratio = torch.exp(old_log_prob - log_prob)``, told by the names alone.
    """
    for node in walked(tree):
        if isinstance(node, ast.Assign) and "ratio" in ast.unparse(node.targets[0]).lower():
            exponent = _exponent(node.value)
            if not isinstance(exponent, ast.BinOp) or not isinstance(exponent.op, ast.Sub):
                continue
            if _is_named(exponent.left, _OLD) and not _is_named(exponent.right, _OLD):
                yield node.value


def turned_preferences(tree: ast.Module) -> Iterator[ast.expr]:
    """The margins of what is rejected over what is chosen in ``-logsigmoid(margin)``."""
    for scope in scopes_of(tree):
        margins = {name: of[-1] for name, of in values_in(statements_in(scope)).items()}
        signs = (x for x in inner(scope) if isinstance(x, ast.UnaryOp))
        negated = (x.operand for x in signs if isinstance(x.op, ast.USub))
        for call in (x for one in negated for x in walked(one) if isinstance(x, ast.Call)):
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
    while (call := method_of(value)) is not None:
        if call.name == "entropy":
            return not call.args
        if call.name not in _MEANS:
            return False
        value = call.of
    return False


def _exponent(value: ast.expr) -> ast.expr | None:
    """The thing that an exponential is of; None of what is none."""
    call = method_of(value)
    return call.of if call is not None and call.name == "exp" else None


def _is_named(node: ast.AST, name: re.Pattern[str]) -> bool:
    """True for what has a variable or attribute of such a name."""
    named = (
        x.id if isinstance(x, ast.Name) else x.attr if isinstance(x, ast.Attribute) else ""
        for x in walked(node)
    )
    return any(name.search(one.lower()) for one in named)


def turned_policies(tree: ast.Module) -> Iterator[ast.expr]:
    """The losses by which a policy makes good actions less likely: a minus is missing.

    As ``loss = (log_prob * returns).mean()``, by these names, of which none is negated elsewhere.
    """
    if "maximize" in {x.arg for x in walked(tree) if isinstance(x, ast.keyword)}:
        return
    for scope in scopes_of(tree):
        minimized = {ast.unparse(of) for of in minimized_in(scope)}
        every = [*given_in(statements_in(scope))] if minimized else []
        negated = {name.lower() for name, value, _ in every if factors_of(value)[0] < 0}
        for value in (x.value for x in every if x.name in minimized):
            names = _names_of_product(value)
            if _is_of_policy(names) and negated.isdisjoint(names):
                yield value


def _is_of_policy(names: Collection[str]) -> bool:
    return any(map(_LIKELY.search, names)) and any(map(_GOOD.search, names))


def _names_of_product(value: ast.expr) -> list[str]:
    """The names of the factors of a product above 0, of which a mean may be taken; else none."""
    if isinstance(value, ast.Call) and called(value) in ("mean", "sum"):
        of = [value.func.value] if isinstance(value.func, ast.Attribute) else []
        given = value.args or of
        return _names_of_product(given[0]) if given else []
    sign, factors = factors_of(value)
    return [ast.unparse(x).lower() for x in factors] if sign > 0 and len(factors) > 1 else []


def turned_ends(tree: ast.Module) -> Iterator[ast.expr]:
    """The products by which what comes next counts where an episode ends, and there alone.

    As ``gamma * done * value`` in the place of ``gamma * (1 - done) * value``.
    """
    turned = {name for name, value, _ in given_in(walked(tree)) if _is_turned(value)}
    is_short_for_end = _keeps_ends(tree)
    inner_ones = {id(side) for x in walked(tree) if _is_product(x) for side in (x.left, x.right)}
    for node in walked(tree):
        if _is_product(node) and id(node) not in inner_ones:
            names = {_last_name(x): ast.unparse(x) for x in factors_of(node)[1]}
            short = {"d"} if is_short_for_end else set[str]()
            ends = [own for name, own in names.items() if _END.fullmatch(name) or name in short]
            if any(map(_DISCOUNT.fullmatch, names)) and ends and not turned & {*ends}:
                yield node


def _keeps_ends(tree: ast.Module) -> bool:
    """True for code that has ``done`` stored as it is, for which ``d`` is short then."""
    kept = [x for x in walked(tree) if isinstance(x, ast.Call) and called(x) in _STORES]
    given = [x for call in kept for x in _items_of(call)]
    ends = [x for x in given if any(map(_END.fullmatch, map(_last_name, _within(x))))]
    return bool(ends) and not any(map(_is_turned, ends))


def _items_of(call: ast.Call) -> Iterator[ast.expr]:
    for x in call.args:
        yield from x.elts if isinstance(x, ast.Tuple) else [x]


def _within(value: ast.expr) -> Iterator[ast.expr]:
    """A value, and what a function such as ``float`` is given of it."""
    yield value
    if isinstance(value, ast.Call):
        yield from value.args[:1]


def _is_turned(value: ast.expr) -> bool:
    """True for ``1 - done``, ``~done``, ``not done`` and ``done.logical_not()``, in any form."""
    negations = (x for x in walked(value) if isinstance(x, ast.Call))
    is_begun_so = ast.unparse(value).replace("(", "").startswith(("1", "~", "not"))
    return is_begun_so or any(called(x).startswith("logical_not") for x in negations)


def _is_product(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _last_name(value: ast.expr) -> str:
    """The last name of a variable, also behind an index or a method; empty of what has none."""
    while isinstance(value, (ast.Subscript, ast.Call)):
        of = value.value if isinstance(value, ast.Subscript) else value.func
        value = of.value if isinstance(value, ast.Call) and isinstance(of, ast.Attribute) else of
    if isinstance(value, ast.Attribute):
        return value.attr.lower()
    return value.id.lower() if isinstance(value, ast.Name) else ""
