"""Residuals of differential equations whose derivatives are computed without a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.derivatives import keeps_no_graph
from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    Scope,
    called,
    minimized_in,
    scopes_of,
    statements_in,
)

_HOMES = frozenset("torch F torch.nn.functional torch.linalg".split())


class _Derivative(NamedTuple):
    """A derivative that is computed without a graph.

    Attributes:
        call: The call that computes it.
        of: The name of what is differentiated.
        by: The name of what it is differentiated by.
    """

    call: ast.Call
    of: str
    by: str


def residuals_without_graph(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that differentiate an output, with which the loss compares the derivative.

    As ``dx = torch.autograd.grad(x.sum(), t, retain_graph=True)[0]`` of a loss that is made of
    ``dx`` and of ``x`` by arithmetic, where ``t`` is told to require a gradient: no weight feels
    what ``dx`` should be.
    """
    helpers = {x.name: x for x in ast.walk(tree) if isinstance(x, FUNCTIONS)}
    found: dict[int, ast.Call] = {}
    for scope in scopes_of(tree):
        values = _values_in(scope)
        known = {name: made for name, of in values.items() if (made := _derived(of, helpers))}
        if known:
            told = {x for x in values if any(map(_requires_gradient, values[x]))}
            made_of = _parts_of_loss(scope, values, known)
            for name, one in known.items():
                if {name, one.of} <= made_of and one.by in told and one.of not in known:
                    found[id(one.call)] = one.call
    yield from found.values()


def _values_in(scope: Scope) -> dict[str, list[ast.expr]]:
    """All values that a scope gives to each name."""
    found: dict[str, list[ast.expr]] = {}
    for node in (x for x in statements_in(scope) if isinstance(x, ast.Assign)):
        for target in node.targets:
            for name, value in _pairs(target, node.value):
                found.setdefault(name, []).append(value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for one, its in zip(target.elts, values, strict=False):
            yield from _pairs(one, its)


def _derived(values: Sequence[ast.expr], helpers: Mapping[str, Function]) -> _Derivative | None:
    """The derivative that a name stands for wherever it is set; None of others."""
    value = values[0]
    while isinstance(value, ast.Subscript):
        value = value.value
    if len(values) > 1 or not isinstance(value, ast.Call):
        return None
    if _is_plain_derivative(value):
        of, by = value.args[:2]
        return _Derivative(value, _name_in(of), _name_in(by))
    helper = helpers.get(ast.unparse(value.func))
    returned = None if helper is None else _returned(helper)
    if helper is None or returned is None:
        return None
    names = [argument.arg for argument in helper.args.args]
    given = dict(zip(names, value.args, strict=False))
    of, by = (given.get(_name_in(x)) for x in returned.args[:2])
    return None if of is None or by is None else _Derivative(returned, _name_in(of), _name_in(by))


def _returned(helper: Function) -> ast.Call | None:
    """The derivative that a function of one line returns."""
    (last,) = helper.body[-1:]
    value = last.value if isinstance(last, ast.Return) else None
    while isinstance(value, ast.Subscript):
        value = value.value
    is_it = isinstance(value, ast.Call) and _is_plain_derivative(value)
    return value if is_it and isinstance(value, ast.Call) else None


def _is_plain_derivative(call: ast.Call) -> bool:
    is_grad = ast.unparse(call.func).endswith("autograd.grad")
    return is_grad and len(call.args) > 1 and keeps_no_graph(call)


def _requires_gradient(value: ast.expr) -> bool:
    """True for what is told to require a gradient, as samples are that one differentiates by."""
    calls = [x for x in ast.walk(value) if isinstance(x, ast.Call)]
    return any(called(call) == "requires_grad_" for call in calls) or any(
        keyword.arg == "requires_grad" for call in calls for keyword in call.keywords
    )


def _name_in(value: ast.expr) -> str:
    """The variable that something is the sum or the first entry of; empty of others."""
    while not isinstance(value, ast.Name):
        if isinstance(value, ast.Call):
            of = value.func.value if isinstance(value.func, ast.Attribute) else None
            is_home = of is None or ast.unparse(of) in _HOMES
            found = next(iter(value.args), None) if is_home else of
        else:
            found = value.value if isinstance(value, (ast.Subscript, ast.Attribute)) else None
        if not isinstance(found, ast.expr):
            return ""
        value = found
    return value.id


def _parts_of_loss(
    scope: Scope, values: Mapping[str, Sequence[ast.expr]], ends: Mapping[str, _Derivative]
) -> set[str]:
    """The names that what is minimized is made of by arithmetic, back to derivatives."""
    left = [name for of in minimized_in(scope) for name in _names_by_arithmetic(of)]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            made_of = () if name in ends else values.get(name, ())
            left += [x for value in made_of for x in _names_by_arithmetic(value)]
    return found


def _names_by_arithmetic(value: ast.expr) -> Iterator[str]:
    """The names in an expression, but for those that a function which is not torch's takes."""
    if isinstance(value, ast.Name):
        yield value.id
        return
    parts: list[ast.AST] = [*ast.iter_child_nodes(value)]
    if isinstance(value, ast.Call):
        of = value.func.value if isinstance(value.func, ast.Attribute) else None
        is_torch = of is not None and ast.unparse(of) in _HOMES
        parts = [*value.args] if is_torch else [] if of is None else [of]
    for part in parts:
        if isinstance(part, ast.expr):
            yield from _names_by_arithmetic(part)
