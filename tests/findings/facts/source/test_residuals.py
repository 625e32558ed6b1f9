"""Derivatives without a graph that a loss compares with the output."""

import pytest

from taiyi_fx.findings.facts.source.residuals import residuals_without_graph
from tests.findings.facts.source.reading import found_in

CODE = """
def derivative(u, t):
    return torch.autograd.grad(u.sum(), t, {told})[0]

for step in range(100):
    t = {by}
    x = model(t)
    dx = {made}
    residual = {residual}
    loss = residual + 20 * (x[0] - 1) ** 2
    loss.backward()
"""
PLAIN = "torch.autograd.grad(x.sum(), t, retain_graph=True)[0]"


def lines(
    *,
    told="retain_graph=True",
    by="torch.rand(8, 1).requires_grad_(True)",
    made="derivative(x, t)",
    residual="((dx + k * x) ** 2).mean()",
):
    code = CODE.format(told=told, by=by, made=made, residual=residual)
    return [line for line, _ in found_in(code, residuals_without_graph)]


def test_a_derivative_of_an_output_that_the_loss_is_made_of_is_found():
    assert lines() == [3]
    assert lines(made=PLAIN) == [8]
    assert lines(by="torch.rand(8, 1, requires_grad=True)") == [3]
    assert lines(residual="F.mse_loss(dx, -k * x)") == [3]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("create_graph=True", "retain_graph=True", [10]),
        ("create_graph=True", "create_graph=True", []),
        ("retain_graph=True", "create_graph=True", [9]),
        ("create_graph=True", "**options", []),
    ],
)
def test_a_function_that_hands_on_what_it_is_told_is_as_it_is_told(first, second, found):
    code = f"""
def derivative(u, x, **told):
    return torch.autograd.grad(u, x, torch.ones_like(u), **told)[0]

for step in range(100):
    x = torch.rand(128, 1)
    x.requires_grad_(True)
    u = model(x)
    u_x = derivative(u, x, {first})
    u_xx = derivative(u_x, x, {second})
    residual = -u_xx + u_x + u - source(x)
    loss = residual.square().mean()
    loss.backward()
"""
    assert [line for line, _ in found_in(code, residuals_without_graph)] == found


def test_derivatives_by_each_others_names_have_no_end():
    code = CODE.replace("x = model(t)", "x = derivative(dx, t)")
    made = code.format(told="", by="s.requires_grad_()", made="derivative(x, t)", residual="dx + x")
    assert found_in(made, residuals_without_graph) == []


def test_names_may_be_set_several_at_once():
    assert lines(made="derivative(x, t)\n    dx, dy = derivative(x, t), derivative(y, t)") == []
    code = CODE.replace("dx = {made}", "dx, other = derivative(x, t), 3")
    made = code.format(told="retain_graph=True", by="s.requires_grad_()", residual="dx + x")
    assert [line for line, _ in found_in(made, residuals_without_graph)] == [3]


@pytest.mark.parametrize(
    "changed",
    [
        {"told": "create_graph=True"},
        {"told": "create_graph=is_second"},
        {"told": "**options"},
        {"by": "last_layer.weight"},
        {"residual": "model(t + 0.1 * dx.sign()).mean()"},
        {"residual": "(x ** 2).mean()"},
        {"made": "(x - 1)"},
    ],
    ids=["graph", "asked", "options", "by weights", "moved samples", "unused", "none"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []


def test_a_target_that_another_function_gives_is_none():
    code = CODE.replace("dx = {made}", "dx = derivative(energy(t), t)")
    made = code.format(told="retain_graph=True", by="s.requires_grad_()", residual="(dx - x) ** 2")
    assert found_in(made, residuals_without_graph) == []
