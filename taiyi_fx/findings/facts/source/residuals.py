"""Residuals of differential equations whose derivatives are computed without a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.source.derivatives import keeps_no_graph
from taiyi_fx.findings.facts.source.named_derivatives import (
    HOMES,
    Derivative,
    derived,
    functions_of,
)
from taiyi_fx.findings.facts.source.syntax import (
    Scope,
    called,
    calls_in,
    minimized_in,
    scopes_of,
    statements_in,
    values_in,
    walked,
    whose,
)


def residuals_without_graph(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that differentiate an output, with which the loss compares the derivative.

    As ``dx = torch.autograd.grad(x.sum(), t, retain_graph=True)[0]`` of a loss that is made of
    ``dx`` and of ``x`` by arithmetic, where ``t`` is told to require a gradient: no weight feels
    what ``dx`` should be.
    """
    helpers = functions_of(tree)
    found: dict[int, ast.Call] = {}
    for scope in scopes_of(tree):
        values = values_in(statements_in(scope))
        made = {name: derived(of, helpers) for name, of in values.items()}
        known = {name: one for name, one in made.items() if one and keeps_no_graph(one.call)}
        if known:
            told = {x for x in values if any(map(_requires_gradient, values[x]))} | {
                whose(call) for call in calls_in(scope) if called(call) == "requires_grad_"
            }
            made_of = _parts_of_loss(scope, values, known)
            for name, one in known.items():
                is_compared = {name, _output_of(one, made)} <= made_of
                if is_compared and one.by in told and one.of not in known:
                    found[id(one.call)] = one.call
    yield from found.values()


def _output_of(one: Derivative, made: Mapping[str, Derivative | None]) -> str:
    """The name of what is differentiated at last, of a derivative of derivatives."""
    seen = set[str]()
    while (before := made.get(one.of)) is not None and one.of not in seen:
        seen.add(one.of)
        one = before
    return one.of


def _requires_gradient(value: ast.expr) -> bool:
    """True for what is told to require a gradient, as samples are that one differentiates by."""
    calls = [x for x in walked(value) if isinstance(x, ast.Call)]
    return any(called(call) == "requires_grad_" for call in calls) or any(
        keyword.arg == "requires_grad" for call in calls for keyword in call.keywords
    )


def _parts_of_loss(
    scope: Scope, values: Mapping[str, Sequence[ast.expr]], ends: Mapping[str, Derivative]
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
        is_torch = of is not None and ast.unparse(of) in HOMES
        parts = [*value.args] if is_torch else [] if of is None else [of]
    for part in parts:
        if isinstance(part, ast.expr):
            yield from _names_by_arithmetic(part)
