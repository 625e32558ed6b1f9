"""Linear layers that nothing parts, and sums of what a layer returns with itself."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import Uses, name_of
from taiyi_fx.findings.facts.layer_runs import doubled_layers, joined_with_themselves, linear_runs

X = torch.randn(4, 3, 8)


def runs(model, x=X):
    loss = model(x).square().mean()
    return linear_runs(Uses.of(loss, owners_of(dict(model.named_modules()))))


def linear(*widths, between=nn.Identity):
    layers = [[nn.Linear(a, b), between()] for a, b in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in layer))


class FusedDropout(nn.Module):
    """A dropout that is one function, as on a GPU."""

    def forward(self, x):
        return torch.native_dropout(x, 0.5, True)[0]


@pytest.mark.parametrize("between", [nn.Identity, FusedDropout], ids=["", "dropout"])
@pytest.mark.parametrize("x", [X, X[0]], ids=["tokens", "rows"])
def test_three_layers_with_nothing_between_them_are_a_run_in_order(between, x):
    assert runs(linear(8, 16, 16, 2, between=between), x) == (("0", "2", "4"),)


@pytest.mark.parametrize(
    "model",
    [
        linear(8, 16, 16, 2, between=nn.ReLU),
        linear(8, 16, 2),
        linear(8, 2, 8, 8),
        nn.Sequential(nn.Linear(8, 9), nn.LayerNorm(9), nn.Linear(9, 9), nn.Linear(9, 7)),
        nn.Sequential(nn.Linear(8, 9).requires_grad_(False), nn.Linear(9, 9), nn.Linear(9, 7)),
        linear(8, 2, 2, 8),
        linear(8, 4, 8, 2),
        linear(8, 8, 8, 8, 8),
    ],
    ids=[
        "relu",
        "two",
        "low rank",
        "norm",
        "frozen",
        "factors",
        "factors and a head",
        "of a width",
    ],
)
def test_layers_that_something_parts_or_factors_of_a_matrix_are_none(model):
    assert runs(model) == ()


class Act(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x * (x > 0),
        lambda x: (x > 0).to(x.dtype) * x,
        lambda x: x * (x >= x.topk(2, -1).values[..., -1:]).float(),
        lambda x: x * x.sign().detach(),
        lambda x: F.dropout(x, 0.5) * (x.detach().abs() < 1.5),
        lambda x: x.where(x > 0, 0.0),
        lambda x: torch.cat([x[..., :-1], x[..., -1:].relu()], -1),
    ],
    ids=["relu", "mask first", "winners", "sign", "gate", "where", "cat"],
)
def test_an_activation_that_is_written_as_a_product_or_of_a_part_is_one(act):
    assert runs(linear(8, 16, 16, 2, between=lambda: Act(act))) == ()


class Rollout(nn.Module):
    """A linear system that is stepped, between two layers or alone."""

    def __init__(self, steps, *, is_within):
        super().__init__()
        self.steps, self.is_within = steps, is_within
        self.into, self.step, self.out = nn.Linear(8, 9), nn.Linear(9, 9), nn.Linear(9, 10)

    def forward(self, x):
        x, states = self.into(x), []
        for _ in range(self.steps):
            x = self.step(x)
            states.append(self.out(x) if self.is_within else x)
        return torch.stack(states)


@pytest.mark.parametrize("is_within", [False, True])
def test_a_layer_that_is_given_what_it_returned_is_the_step_of_a_linear_system(is_within):
    assert runs(Rollout(4, is_within=is_within)) == ()
    assert len(runs(Rollout(1, is_within=True))) == 1


def test_a_model_that_is_called_twice_is_no_repeat():
    model = linear(8, 16, 16, 2)
    loss = (model(X) - model(-X)).square().mean()
    found = linear_runs(Uses.of(loss, owners_of(dict(model.named_modules()))))
    assert found == (("0", "2", "4"),) * 2


LAYER = nn.Linear(8, 8)
CONV = nn.Conv1d(3, 3, 3, padding=1)
UP, DOWN = nn.Linear(8, 16), nn.Linear(16, 8)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (lambda: [LAYER(LAYER(X))] * 2, 1),
        (lambda: [CONV(CONV(X))] * 2, 1),
        (lambda: [F.dropout(LAYER(LAYER(X)), 0.5)] * 2, 1),
        (lambda: [DOWN(UP(LAYER(X)).relu())] * 2, 1),
        (lambda: [DOWN(UP(X).relu())] * 2, 0),
        (lambda: [UP(X)] * 2, 0),
        (lambda: [LAYER(LAYER(X)), LAYER(LAYER(X))], 0),
        (lambda: [LAYER(LAYER(X)).relu()] * 2, 0),
        (lambda: [LAYER(LAYER(X)).mean()] * 2, 0),
        (lambda: [LAYER(X), X], 0),
    ],
    ids=[
        *("layer", "convolution", "dropout", "branch", "nothing alike before", "another width"),
        *("two calls", "activation", "a number", "residual"),
    ],
)
def test_a_layer_that_is_added_to_itself_is_found(made, count):
    x, other = made()
    found = doubled_layers(Uses.of((x + other).square().mean()))
    assert [name_of(node) for node in found] == ["Add"] * count


def test_products_and_halves_of_one_tensor_are_no_sums():
    x = LAYER(LAYER(X))
    one, other = x.chunk(2, -1)
    assert doubled_layers(Uses.of((x * x).mean() + (one + other).mean())) == []


@pytest.mark.parametrize(("alpha", "count"), [(1, 1), (0.5, 0)])
def test_a_sum_with_a_weight_is_meant(alpha, count):
    x = LAYER(LAYER(X))
    assert len(doubled_layers(Uses.of(torch.add(x, x, alpha=alpha).mean()))) == count


def test_a_sum_with_a_number_is_none():
    x = torch.ops.aten.add.Scalar(LAYER(X), 1)  # as the derivative of a layer of torch has
    assert doubled_layers(Uses.of(x.mean())) == []


@pytest.mark.parametrize(
    ("parts", "axis", "count"),
    [
        (lambda x, y: [y, y], 1, 1),
        (lambda x, y: [y, y], -1, 1),
        (lambda x, y: [y.relu()] * 2, 1, 1),
        (lambda x, y: [y.relu(), y.relu()], 1, 0),
        (lambda x, y: [y, y], 0, 0),
        (lambda x, y: [x, y], 1, 0),
        (lambda x, y: [y, y, y], 1, 0),
        (lambda x, y: [*y.chunk(2, 1)], 1, 0),
        (lambda x, y: [y, -y], 1, 0),
        (lambda x, y: [x, x], 1, 0),
    ],
    ids=[
        *(
            "itself",
            "the last axis",
            "an activation",
            "two activations",
            "samples",
            "another",
            "three",
            "halves",
        ),
        *("its negative", "nothing alike before"),
    ],
)
def test_what_is_joined_with_itself_is_found(parts, axis, count):
    x = LAYER(X)
    joined = torch.cat(parts(x, LAYER(x)), axis)
    assert len(joined_with_themselves(Uses.of(joined.square().mean()))) == count
