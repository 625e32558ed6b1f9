"""Conditions by which a generator makes samples, and others by which its judge sees them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.source.syntax import (
    called,
    calls_in,
    scopes_of,
    statements_in,
    values_in,
    walked,
)

_JUDGE = re.compile(r"(\w*_)?w?(d|net_?d|dis\w*|critic|judge)(_\w+)?")
_MAKER = re.compile(r"(\w*_)?w?(g|net_?g|gen\w*|maker)(_\w+)?")
_CONDITION = re.compile(
    r"(\w*_)?(c|y|labels?|conds?|conditions?|classes|cls|wanted|targets?)(_\w+)?"
)


def foreign_conditions(tree: ast.Module) -> Iterator[ast.expr]:
    """The conditions that a judge is given beside a sample which was made by another one.

    As ``fake = G(z, drawn)`` and ``D(fake, labels)``. Not where one is made of the other, or both
    of a third, as by ``c = one_hot(labels)``.
    """
    for scope in scopes_of(tree):
        values = values_in(statements_in(scope))
        for call in calls_in(scope):
            if _JUDGE.fullmatch(called(call).lower()) and len(call.args) == 2:
                sample, given = call.args
                made_by = _condition_of(sample, values)
                if made_by and _is_condition(given):
                    sources = (_sources_of(name, values) for name in (made_by, ast.unparse(given)))
                    if set.isdisjoint(*sources):
                        yield given


def _sources_of(name: str, values: Mapping[str, Sequence[ast.expr]]) -> set[str]:
    """The conditions that one is made of, itself among them."""
    left, found = [name], set[str]()
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            inner = (x for value in values.get(one, ()) for x in walked(value))
            left += [ast.unparse(x) for x in inner if _is_condition(x)]
    return found


def _condition_of(sample: ast.expr, values: Mapping[str, Sequence[ast.expr]]) -> str:
    """The condition that a sample was made by; empty where it is not known."""
    if isinstance(sample, ast.Name):
        every = values.get(sample.id, ())
        return _condition_of(every[0], {}) if len(every) == 1 else ""
    if isinstance(sample, ast.Call) and called(sample) == "detach":
        of = sample.func.value if isinstance(sample.func, ast.Attribute) else sample
        return _condition_of(of, values)
    is_made = isinstance(sample, ast.Call) and _MAKER.fullmatch(called(sample).lower())
    if is_made and isinstance(sample, ast.Call) and len(sample.args) == 2:
        return ast.unparse(sample.args[1]) if _is_condition(sample.args[1]) else ""
    return ""


def _is_condition(value: ast.AST) -> bool:
    return isinstance(value, ast.Name) and _CONDITION.fullmatch(value.id.lower()) is not None
