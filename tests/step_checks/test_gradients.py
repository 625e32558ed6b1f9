"""The gradient of a step against central differences, and the lines at which it ends."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from tests.step_checks import steps


def check(model, step, *batch):
    wrong = ("cut_gradient", "wrong_gradient")
    found = taiyi_fx.step_check(model, step, *batch)
    assert "gradient" in found.looked_at
    return [one for one in found if one.kind in wrong]


@pytest.fixture
def model():
    return steps.net()


def test_a_layer_that_is_cut_off_is_named_with_the_line(model):
    def step(x, y):
        hidden = model[:2](x).detach()
        return F.cross_entropy(model[2:](hidden), y)

    (one,) = check(model, step, *steps.batch())
    assert (one.kind, one.severity, one.module) == ("cut_gradient", "warning", "0")
    assert "'0.weight' and 1 more" in one.text
    line = step.__code__.co_firstlineno + 1
    assert one.text.endswith(f"it ends by detach at test_gradients.py:{line}")


def test_a_frozen_layer_is_left_in_peace(model):
    model[0].requires_grad_(requires_grad=False)
    assert check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch()) == []


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout_and_checkpoints_are_no_mistake(reentrant):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU())
    model = nn.ModuleList([block, nn.Linear(16, steps.CLASSES)])

    def step(x, y):
        h = checkpoint(block, x.requires_grad_(), use_reentrant=reentrant)
        return F.cross_entropy(model[1](h), y)

    found = taiyi_fx.step_check(model, step, *steps.batch())
    assert found == []
    assert "gradient" in found.looked_at


def test_a_backward_that_is_wrong_is_named(model):
    def step(x, y):
        return F.cross_entropy(model[2:](steps.WrongTanh.apply(model[0](x))), y)

    (one,) = check(model, step, *steps.batch())
    assert (one.kind, one.severity, one.module) == ("wrong_gradient", "warning", "0")
    assert "WrongTanh computes a gradient of its own" in one.text
    assert float(one.expected) != pytest.approx(one.value, rel=0.01)


def physics(model, create_graph):
    def step(x):
        x = x.clone().requires_grad_()
        u = model(x)
        (first,) = torch.autograd.grad(u.sum(), x, retain_graph=True, create_graph=create_graph)
        return (first - 1).square().mean() + u.square().mean()

    return step


def test_a_derivative_without_its_graph_is_told():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.linspace(-1, 1, 12)[:, None]
    (one,) = check(model, physics(model, create_graph=False), x)
    assert (one.kind, one.severity) == ("wrong_gradient", "warning")
    assert check(model, physics(model, create_graph=True), x) == []


def test_a_term_that_is_only_a_number_is_told_with_its_line(model):
    def step(x, y):
        out = model(x)
        return F.cross_entropy(out, y) + out.square().mean().item()

    (one,) = check(model, step, *steps.batch())
    assert (one.kind, one.severity) == ("wrong_gradient", "warning")
    line = step.__code__.co_firstlineno + 2
    assert f"item at test_gradients.py:{line}" in one.text


def test_a_stop_that_is_written_as_one_is_a_note(model):
    def step(x, y):
        out = model(x)
        with torch.no_grad():
            aim = out.softmax(-1)
        return F.cross_entropy(out, y) + (out * aim).mean()

    (one,) = check(model, step, *steps.batch())
    assert (one.kind, one.severity) == ("wrong_gradient", "note")
    assert "no_grad at test_gradients.py:" in one.text
    assert "may be meant so" in one.text


def test_a_straight_through_estimator_is_a_note():
    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    model = nn.Linear(6, steps.CLASSES)

    def step(x, y):
        weight = Rounded.apply(model.weight * 8) / 8
        return F.cross_entropy(F.linear(x, weight, model.bias), y)

    (one,) = check(model, step, *steps.batch())
    assert (one.kind, one.severity) == ("wrong_gradient", "note")
    assert "straight-through" in one.text


def test_what_has_no_effect_needs_no_gradient(model):
    model.add_module("unused", nn.Linear(3, 3))
    assert check(model, lambda x, y: F.cross_entropy(model[:4](x), y), *steps.batch()) == []


def test_weights_that_are_tied_and_zero_are_no_mistake():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(steps.TOKENS, 8)
            self.head = nn.Linear(8, steps.TOKENS, bias=False)
            self.head.weight = self.embedding.weight
            self.scale = nn.Parameter(torch.zeros(()))

        def forward(self, tokens):
            x = self.embedding(tokens)
            return self.head(x + self.scale * x.cumsum(1))

    model = Tied()

    def step(tokens):
        return steps.next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])

    assert check(model, step, steps.tokens()) == []
    assert model.head.weight is model.embedding.weight


def test_a_kink_that_the_parameters_stand_on_is_no_mistake():
    class Kinked(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.scale, self.linear = nn.Parameter(torch.ones(())), nn.Linear(6, steps.CLASSES)

        def forward(self, x):
            # Exactly zero, whatever the scale is: one slope of a ReLU is 1, and one is 0.
            zero = (self.scale - self.scale.detach()).relu()
            return self.linear(x) * (1 + zero)

    model = Kinked()
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert found == []


def test_a_loss_that_jumps_is_left_untried():
    model = steps.net()

    def step(x, y):
        out = model(x)
        return F.cross_entropy(out, y) + (out.detach() * 1e7).round().sum() * 1e-3

    found = taiyi_fx.step_check(model, step, *steps.batch())
    assert [one for one in found if one.kind == "wrong_gradient"] == []
    assert "gradient (the loss has jumps)" in found.remark
