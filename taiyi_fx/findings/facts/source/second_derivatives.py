"""Second derivatives of a model's output, as differential equations have them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from taiyi_fx.findings.facts.source.named_derivatives import derived, functions_of
from taiyi_fx.findings.facts.source.syntax import (
    Function,
    calls_in,
    scopes_of,
    statements_in,
    values_in,
    walked,
)


def second_derivatives(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that differentiate what is a derivative itself, by the same or another name.

    As ``u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x))[0]``, or ``d(d(u, x), x)``.
    """
    helpers = functions_of(tree)
    for scope in scopes_of(tree):
        for call in calls_in(scope):
            if derived([call], helpers) and any(_is_derivative(x, helpers) for x in call.args):
                yield call
        values = values_in(statements_in(scope))
        made = {name: derived(of, helpers) for name, of in values.items()}
        for name, one in made.items():
            if one is not None and one.of != name and made.get(one.of) is not None:
                yield values[name][0]


def _is_derivative(value: ast.expr, helpers: Mapping[str, Function]) -> bool:
    """True for what has a call that differentiates in it, as an entry of what that returns."""
    calls = (x for x in walked(value) if isinstance(x, ast.Call))
    return any(derived([call], helpers) is not None for call in calls)
