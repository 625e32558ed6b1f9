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


FORMS = """
x: int = 1
y: float
while (n := read()) and f(m := n):
    x += g(k := n)
a, (b, self.c) = 2, d
e = [i, j] = 3, 4
"""


def test_all_forms_that_give_a_value_to_a_name_are_known():
    given = [
        (line, name, ast.unparse(value))
        for name, value, line in syntax.given_in(ast.walk(syntax.parsed(FORMS)))
    ]
    assert sorted(given) == [
        (2, "x", "1"),
        (4, "m", "n"),
        (4, "n", "read()"),
        (5, "k", "n"),
        (5, "x", "x + g(k)"),
        (6, "a", "2"),
        (6, "b", "d"),
        (6, "self.c", "d"),
        (7, "e", "(3, 4)"),
        (7, "i", "3"),
        (7, "j", "4"),
    ]


def test_an_assignment_within_an_expression_comes_before_it():
    assert ast.unparse(syntax.parsed("if f(x := g()):\n    h(y := x)")).split("\n") == [
        "x = g()",
        "if f(x):",
        "    y = x",
        "    h(y)",
    ]


def test_results_of_some_functions_have_names():
    tree = syntax.parsed("a = self.b = torch.f(1)\nc = g(2)\nd = f")
    assert [(name, ast.unparse(call)) for name, call in syntax.made_by(("f",), ast.walk(tree))] == [
        ("a", "torch.f(1)"),
        ("self.b", "torch.f(1)"),
    ]


@pytest.mark.parametrize("code", ["for", "x = \0"])
def test_what_is_no_code_is_told_as_such(code):
    with pytest.raises(SyntaxError):
        syntax.parsed(code)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("a.lerp_(b, 0.1)", ("lerp_", "a", ["b", "0.1"], {})),
        ("torch.lerp(a, b, weight=0.1)", ("lerp", "a", ["b"], {"weight": "0.1"})),
        ("torch._foreach_add_(a, b, alpha=2)", ("add_", "a", ["b"], {"alpha": "2"})),
        ("math.sqrt(1 - a)", ("sqrt", "1 - a", [], {})),
        ("sqrt(a)", ("sqrt", "a", [], {})),
        ("F.softmax(self.a, -1)", ("softmax", "self.a", ["-1"], {})),
    ],
)
def test_functions_of_tensors_are_methods_too(code, told):
    call = syntax.method_of(ast.parse(code, mode="eval").body)
    named = {name: ast.unparse(x) for name, x in call.told.items()}
    assert (call.name, ast.unparse(call.of), [*map(ast.unparse, call.args)], named) == told


@pytest.mark.parametrize("code", ["torch.get_rng_state()", "f()", "a + b", "a.b"])
def test_others_are_no_methods(code):
    assert syntax.method_of(ast.parse(code, mode="eval").body) is None


def test_what_is_walked_is_kept_with_the_code():
    tree = ast.parse(CODE)
    assert [*syntax.walked(tree)] == [*ast.walk(tree)]
    assert syntax.walked(tree) is syntax.walked(tree)
    assert syntax.inner(tree) is syntax.inner(tree)
