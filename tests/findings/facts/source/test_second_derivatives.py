"""Derivatives of derivatives."""

import pytest

from taiyi_fx.findings.facts.source.second_derivatives import second_derivatives
from tests.findings.facts.source.reading import found_in

CODE = """
def derivative(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]

def residual(net, x):
    u = net(x)
    u_x = {first}
    u_xx = {second}
    return u_xx + f(x)
"""
GRAD = "torch.autograd.grad({}.sum(), x, create_graph=True)[0]"


def lines(first, second):
    code = CODE.format(first=first, second=second)
    return [line for line, _ in found_in(code, second_derivatives)]


@pytest.mark.parametrize("first", [GRAD.format("u"), "derivative(u, x)"])
@pytest.mark.parametrize(
    "second", [GRAD.format("u_x"), GRAD.format("u_x[:, 0:1]"), "derivative(u_x, x)"]
)
def test_what_differentiates_a_derivative_is_found(first, second):
    assert lines(first, second) == [8]


@pytest.mark.parametrize(
    "second", ["derivative(derivative(u, x), x)", GRAD.format("derivative(u, x)")]
)
def test_also_one_within_the_other(second):
    assert lines("f(u)", second) == [8]


@pytest.mark.parametrize("second", [GRAD.format("u"), "derivative(u, y)", "u_x ** 2", "f(u_x, x)"])
def test_first_derivatives_are_none(second):
    assert lines(GRAD.format("u"), second) == []
