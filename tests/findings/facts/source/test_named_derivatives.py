"""Derivatives by their names."""

import ast

from taiyi_fx.findings.facts.source.named_derivatives import derived, functions_of, name_in
from taiyi_fx.findings.facts.source.syntax import values_in

CODE = """
def d(u, t):
    return torch.autograd.grad(u.sum(), t)[0]

dx, other = d(x, s), 3
dy = torch.autograd.grad(torch.sum(y), s)
x2 = y.exp()
"""


def test_a_derivative_has_what_it_is_of_and_by():
    tree = ast.parse(CODE)
    values, helpers = values_in(ast.walk(tree)), functions_of(tree)
    made = {name: derived(of, helpers) for name, of in values.items()}
    known = {name: (one.of, one.by) for name, one in made.items() if one is not None}
    assert known == {"dx": ("x", "s"), "dy": ("y", "s")}
    assert [*values] == ["dx", "other", "dy", "x2"]


def test_the_variable_behind_sums_and_entries():
    names = {
        "u.sum()": "u",
        "torch.sum(u[:, 0])": "u",
        "net(u)": "u",
        "(u + 1).mean()": "",
    }
    found = {code: name_in(ast.parse(code, mode="eval").body) for code in names}
    assert found == names
