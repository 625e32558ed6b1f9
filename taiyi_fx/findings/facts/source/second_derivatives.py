"""Second derivatives of a model's output, as differential equations have them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.named_derivatives import derived, functions_of, values_in
from taiyi_fx.findings.facts.source.syntax import scopes_of


def second_derivatives(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that differentiate what is a derivative itself, by the same or another name.

    As ``u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x))[0]``.
    """
    helpers = functions_of(tree)
    for scope in scopes_of(tree):
        values = values_in(scope)
        made = {name: derived(of, helpers) for name, of in values.items()}
        for name, one in made.items():
            if one is not None and one.of != name and made.get(one.of) is not None:
                yield values[name][0]
