"""Targets of values to which what comes next is added behind the end of an episode, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from taiyi_fx.findings.facts.source.syntax import (
    Scope,
    called,
    factors_of,
    given_in,
    has_backward,
    inner,
    names_in,
    scopes_of,
    signed_terms_of,
    statements_in,
    terms_of,
    values_in,
    walked,
)

_DISCOUNT = re.compile(r"(\w+[._])?(gamma|discount(_factor)?)")
_ENDS = re.compile(r"done|term|mask|final|alive|absorb|where|fill|end|continu|valid")
"""Parts of the names by which code leaves out what comes after an end."""
_OF_LISTS = frozenset({"append", "extend", "appendleft"})
_BEST = frozenset({"max", "amax", "gather"})
"""What a network's values of actions are asked for: the best, or that of one action."""


def endless_targets(tree: ast.Module) -> Iterator[ast.expr]:
    """The sums of a reward and the discounted best value of the next state, as it is.

    As ``r + gamma * target_net(s2).max(1).values``, in code that trains, where no name that the
    value or the sum goes through says that an episode may have ended. And differences in time, as
    ``delta = r[t] + gamma * v[t + 1] - v[t]``, in code that has no such name at all.
    """
    for scope in scopes_of(tree):
        if not _tells_ends(scope):
            yield from (x.value for x in statements_in(scope) if _is_difference(x))
        for node in statements_in(scope) if has_backward(scope) else ():
            if not isinstance(node, ast.Assign):
                continue
            value = node.value
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
                later = next((x for x in map(_discounted, terms_of(value)) if x is not None), None)
                if later is not None and _is_best(later, scope) and _is_plain(node, scope):
                    yield value


def _is_difference(node: ast.stmt) -> TypeGuard[ast.Assign]:
    """True for what is set to a sum with a discounted entry of the next step, less that of this."""
    if not isinstance(node, ast.Assign):
        return False
    terms = [*signed_terms_of(node.value)]
    later = [x for sign, term in terms if sign > 0 and (x := _discounted(term)) is not None]
    now = {ast.unparse(term) for sign, term in terms if sign < 0}
    return len(terms) > 2 and any(_before(x) in now for x in later)


def _before(entry: ast.expr) -> str:
    """The entry before the next one, as ``"v[t]"`` of ``v[t + 1]``; empty of others."""
    place = entry.slice if isinstance(entry, ast.Subscript) else None
    if not isinstance(entry, ast.Subscript) or not isinstance(place, ast.BinOp):
        return ""
    is_next = isinstance(place.op, ast.Add) and ast.unparse(place.right) == "1"
    return f"{ast.unparse(entry.value)}[{ast.unparse(place.left)}]" if is_next else ""


def _discounted(term: ast.expr) -> ast.expr | None:
    """The one thing that a discount multiplies; None where there are more, and of other terms."""
    factors = factors_of(term)[1]
    others = [x for x in factors if not _DISCOUNT.fullmatch(ast.unparse(x).lower())]
    return others[0] if len(factors) == 2 and len(others) == 1 else None


def _is_best(value: ast.expr, scope: Scope) -> bool:
    """True for the best of what a network returns, also by a name, with nothing about an end."""
    if isinstance(value, ast.Name):
        sets = values_in(statements_in(scope)).get(value.id, [])
        return bool(sets) and all(map(_is_best_of_calls, sets))
    return _is_best_of_calls(value)


def _is_best_of_calls(value: ast.expr) -> bool:
    calls = [x for x in walked(value) if isinstance(x, ast.Call)]
    return len(calls) > 1 and not _BEST.isdisjoint(map(called, calls)) and not _tells_ends(value)


def _is_plain(node: ast.Assign, scope: Scope) -> bool:
    """True if neither the sum nor a part of it is changed in place, or set by what tells ends."""
    names = {*names_in(node, ast.Store), *names_in(node.value)}
    parts = (x for x in inner(scope) if isinstance(x, ast.Subscript))
    is_set = any(
        isinstance(x.ctx, ast.Store) and names & names_in(x.value) and _tells_ends(x) for x in parts
    )
    every = statements_in(scope)
    is_changed = any(isinstance(x, ast.AugAssign) and ast.unparse(x.target) in names for x in every)
    others = (x.value for x in given_in(every) if x.name in names and x.value is not node.value)
    return not (is_set or is_changed or any(map(_tells_ends, others)))


def _tells_ends(node: ast.AST) -> bool:
    """True for code with a name in it that says where something ends, or what counts."""
    named = (
        getattr(x, "id", "") or getattr(x, "attr", "") or getattr(x, "arg", "") or ""
        for x in walked(node)
    )
    return any(_ENDS.search(one.lower()) for one in named if one not in _OF_LISTS)
