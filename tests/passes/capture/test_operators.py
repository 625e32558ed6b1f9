"""Python's operators by their signs and their forms in syntax trees."""

import ast
import operator

import pytest

from taiyi_fx.passes.capture.operators import (
    BINARY,
    COMPARISON,
    IN_PLACE,
    IN_PLACE_OPERATORS,
    SIGNS,
    UNARY,
)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_is_what_python_makes_of_it(sign):
    form, function, in_place = SIGNS[sign]
    assert type(ast.parse(f"a {sign} b").body[0].value.op) is form
    assert BINARY[form] is function
    assert IN_PLACE[form] is in_place
    if sign != "@":
        assert eval(f"7 {sign} 2") == function(7, 2) == in_place(7, 2)


def test_all_forms_that_python_has_are_there():
    forms = {kind: set(kind.__subclasses__()) for kind in (ast.operator, ast.cmpop, ast.unaryop)}
    assert set(BINARY) == forms[ast.operator]
    assert set(COMPARISON) == forms[ast.cmpop] - {ast.Is, ast.IsNot, ast.In, ast.NotIn}
    assert set(UNARY) == forms[ast.unaryop] - {ast.Not}


def test_operators_in_place_change_their_first_operand():
    for function in IN_PLACE_OPERATORS:
        assert function.__name__.startswith("i")
    values = [1]
    assert operator.iadd in IN_PLACE_OPERATORS
    assert operator.iadd(values, [2]) is values
