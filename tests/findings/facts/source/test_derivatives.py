"""Derivatives without a graph that a loss is made of."""

import ast

import pytest

from taiyi_fx.findings.facts.source.derivatives import terms_without_gradient


def lines(code):
    return [call.lineno for call in terms_without_gradient(ast.parse(code))]


PENALTY = """
LAMBDA = 10
def penalty(critic, x):
    x.requires_grad_(True)
    g = torch.autograd.grad(critic(x).sum(), x{keeps})[0]
    norms = g.flatten(1).norm(2, dim=1)
    return {returned}
"""
NORM = "((norms - 1) ** 2).mean()"
LOOP = """
def train(weight=10.0, *, other=3):
    loss = critic(fake).mean() - critic(real).mean(){plus}
    {more}
    {backward}
"""


def code(
    keeps="",
    returned=NORM,
    plus=" + LAMBDA * penalty(critic, x)",
    more="pass",
    backward="loss.backward()",
):
    return PENALTY.format(keeps=keeps, returned=returned) + LOOP.format(
        plus=plus, more=more, backward=backward
    )


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"keeps": ", create_graph=False"},
        {"keeps": ", retain_graph=True"},
        {"plus": " + penalty(critic, x)"},
        {"plus": " + penalty(critic, x) * weight / 2"},
        {"plus": " + other * penalty(critic, x)"},
        {"plus": " + args.gp * self.penalty(critic, x)"},
        {"plus": "", "more": "loss += LAMBDA * penalty(critic, x)"},
        {"plus": "", "more": "gp = penalty(critic, x); loss = loss + LAMBDA * gp"},
        {"backward": "scaler.scale(loss).backward()"},
        {"backward": "accelerator.backward(loss)"},
        {"plus": "", "backward": "(loss + LAMBDA * penalty(critic, x)).backward()"},
        {"returned": "sum(d.pow(2).sum() for d in g) / -2"},
        {"returned": "torch.relu(torch.linalg.norm(g.view(x.size(0), -1), None, 1) - 1).mean()"},
    ],
    ids=lambda of: ", ".join(of.values()) or "usual",
)
def test_a_term_of_a_derivative_without_a_graph_is_found(of):
    assert lines(code(**of)) == [5]


@pytest.mark.parametrize(
    "of",
    [
        {"keeps": ", create_graph=True"},
        {"keeps": ", create_graph=self.training"},
        {"keeps": ", None, True, True"},
        {"keeps": ", **options"},
        {"returned": "norms.detach()"},
        {"returned": "norms.mean().item()"},
        {"returned": "critic(x)"},
        {"plus": " + penalty(critic, x) * second_loss"},
        {"plus": "", "more": "log(penalty(critic, x))"},
        {"plus": "", "more": "gp = penalty(critic, x); gp = other; loss = loss + gp"},
        {"backward": "print(loss)"},
        {"plus": "", "more": "norm = LAMBDA * penalty(critic, x) + 1"},
    ],
    ids=lambda of: ", ".join(of.values()),
)
def test_one_that_has_a_graph_or_is_a_number_on_purpose_is_none(of):
    """As the weight of VQGAN's second loss, which is a ratio of derivatives."""
    assert lines(code(**of)) == []


def test_the_function_may_have_a_name_of_its_own():
    here = "g = grad(f(x), x)[0]\nloss = f(x) + g.square().mean()\nloss.backward()\n"
    assert lines(here) == []
    assert lines("from torch.autograd import grad\n" + here) == [2]
    assert lines("from torch.autograd import grad as slope\n" + here) == []
    assert lines("from torch import autograd\n" + here.replace("grad(", "autograd.grad(")) == [2]


MOVED = """
for x, y in loader:
    clean = f(model(x), y)
    g = torch.autograd.grad(clean, x)[0]
    moved = x + 0.03 * g.sign()
    loss = f(model(x), y) + f(model({given}), y)
    loss.backward()
"""
INNER = """
def adapted(weights, x, y):
    g = torch.autograd.grad(loss_of(weights, x, y), weights)
    return [w - 0.1 * d for w, d in zip(weights, g)]

for task in tasks:
    fast = adapted(weights, *task)
    loss += loss_of(fast, *task)
loss.backward()
"""


@pytest.mark.parametrize(
    "here",
    [
        MOVED.format(given="moved"),
        MOVED.format(given="x + 0.03 * g.sign()"),
        MOVED.format(given="(x + g.sign()).clamp(0, 1)"),
        INNER,
    ],
    ids=["named", "as it is", "cut off", "weights"],
)
def test_what_is_moved_along_a_derivative_is_no_penalty(here):
    """As samples of an adversarial training are, and weights of one that learns to learn."""
    assert lines(here) == []


def test_a_derivative_alone_is_none():
    """To minimize it alone raises an error of torch's."""
    assert lines("loss = torch.autograd.grad(f(x), x)[0].norm()\nloss.backward()\n") == []
