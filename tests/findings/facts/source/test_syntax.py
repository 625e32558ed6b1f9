"""The parts of code that readers look for."""

import ast

import pytest

from taiyi_fx.findings.facts.source import syntax

CODE = """
def f():
    backward()

for i in range(3):
    loss.backward()
    g = lambda: h()
"""


def test_what_is_in_functions_within_is_left_out():
    tree = ast.parse(CODE)
    assert [syntax.called(call) for call in syntax.calls_in(tree)] == ["range", "backward"]
    assert [type(one) for one in syntax.scopes_of(tree)] == [ast.Module, ast.FunctionDef]
    assert len([*syntax.loops_in(tree)]) == 1
    assert [node.lineno for node in syntax.statements_in(tree)] == [5, 6, 7]
    assert syntax.has_backward(tree)


@pytest.mark.parametrize(
    ("code", "terms"),
    [
        ("a - (b - 2 * c)", [(1, "a"), (-1, "b"), (1, "2 * c")]),
        ("-(a + b) + -3 * c", [(-1, "a"), (-1, "b"), (-1, "-3 * c")]),
        ("a", [(1, "a")]),
    ],
)
def test_terms_have_the_sign_that_they_have_in_the_sum(code, terms):
    value = ast.parse(code, mode="eval").body
    assert [(sign, ast.unparse(term)) for sign, term in syntax.signed_terms_of(value)] == terms


def test_factors_of_quotients_are_those_above():
    sign, factors = syntax.factors_of(ast.parse("-2 * a * -(b / c)", mode="eval").body)
    assert (sign, [*map(ast.unparse, factors)]) == (1, ["2", "a", "b"])


def test_what_backward_is_called_of_is_minimized():
    tree = ast.parse("scaler.scale(a).backward()\nfabric.backward(b)\nc.backward()")
    assert {"a", "b", "c"} <= {ast.unparse(of) for of in syntax.minimized_in(tree)}
