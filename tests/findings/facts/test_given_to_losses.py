"""What losses are given that no loss is meant to be."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.given_to_losses import (
    is_judged,
    is_score,
    last_products,
    masked_by_product,
    out_of_reach,
    own_pairs,
)

LAYER = nn.Linear(6, 5)
X = torch.randn(8, 6)
EYE, ORDER = torch.eye(8, dtype=torch.bool), torch.arange(8).roll(4)


def unit():
    return F.normalize(LAYER(X), dim=1)


@pytest.mark.parametrize(
    ("logits", "count"),
    [
        (lambda x, y: x @ x.T, 1),
        (lambda x, y: x @ x.T / 0.1, 1),
        (lambda x, y: 10 * (x @ x.mT), 1),
        (lambda x, y: (x @ x.T).masked_fill(EYE, -1e9), 0),
        (lambda x, y: x @ x.T - 1e9 * EYE, 0),
        (lambda x, y: x @ y.T, 0),
        (lambda x, y: torch.cat([x, y]).chunk(2)[0] @ torch.cat([x, y]).chunk(2)[1].T, 0),
        (lambda x, y: (lambda a, b: a @ b.T)(*torch.cat([x, y]).chunk(2)), 0),
        (lambda x, y: (lambda a, b: b @ b.T)(*torch.cat([x, y]).chunk(2)), 1),
        (lambda x, y: (x[:3] @ x[:3].T).repeat(3, 3)[:8, :8], 0),
    ],
    ids=[
        "product",
        "temperature",
        "factor",
        "masked",
        "taken off",
        "two views",
        "apart",
        "halves",
        "a half",
        "few",
    ],
)
def test_rows_that_choose_among_all_rows_choose_themselves(logits, count):
    loss = F.cross_entropy(logits(unit(), unit()), ORDER)
    assert [shape for _, shape, _ in own_pairs(Uses.of(loss))] == [(8, 8)] * count


def test_attention_of_rows_to_themselves_is_no_choice():
    x = unit()
    assert [*own_pairs(Uses.of(((x @ x.T).log_softmax(1) @ x).mean()))] == []


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        (lambda x: F.mse_loss(F.dropout(x, 0.5), torch.zeros(8, 5)), 1),
        (lambda x: F.huber_loss(F.dropout(x, 0.5).flatten(), torch.zeros(40)), 1),
        (lambda x: F.cross_entropy(F.dropout(x, 0.5), ORDER % 5), 1),
        (lambda x: F.cross_entropy(F.dropout(x, 0.5).relu(), ORDER % 5), 0),
        (lambda x: F.mse_loss(x, torch.zeros(8, 5)), 0),
        (lambda x: F.mse_loss(x * x, torch.zeros(8, 5)), 0),
    ],
    ids=["error", "rearranged", "choice", "before an activation", "none", "square"],
)
def test_a_product_before_a_loss_is_found(loss, count):
    layers = [*last_products(Uses.of(loss(LAYER(X)), {id(LAYER.weight): "layer"}))]
    assert layers == ["layer"] * count


TANH = [("tanh", 0.93)]
BELOW, INSIDE = torch.linspace(-1, 1, 40).view(8, 5), torch.linspace(0, 1, 40).view(8, 5)


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda x: F.mse_loss(x.relu(), BELOW), [("relu", 0.475)]),
        (lambda x: F.smooth_l1_loss(x.relu().flatten(), BELOW.flatten()), [("relu", 0.475)]),
        (lambda x: F.mse_loss(x.sigmoid(), 16 * INSIDE), [("sigmoid", 0.9)]),
        (lambda x: F.mse_loss(x.sigmoid(), INSIDE), []),
        (lambda x: F.mse_loss(x.relu(), INSIDE), []),
        (lambda x: F.mse_loss(x.tanh(), BELOW), []),
        (lambda x: F.mse_loss(x.relu() * 2, BELOW), []),
        (lambda x: F.mse_loss(x, BELOW), []),
        (lambda x: F.mse_loss(x.relu(), LAYER(X)), []),
        (lambda x: F.mse_loss(x.sigmoid(), INSIDE.where(INSIDE < 0.98, 1.5)), []),
        (lambda x: 5 * F.l1_loss(x.sigmoid(), 16 * INSIDE) + x.mean(), [("sigmoid", 0.9)]),
        (lambda x: ((16 * INSIDE - x.sigmoid()) ** 2).sum(1).mean(), [("sigmoid", 0.9)]),
        (lambda x: (x.view(5, 8).tanh().flatten() - 16 * INSIDE.flatten()).pow(2).mean(), TANH),
        (lambda x: (x.sigmoid() - INSIDE).square().mean(), []),
        (lambda x: ((x.relu() - BELOW).square().sum(1) @ torch.ones(8)).log(), []),
    ],
    ids=[
        "below",
        "huber",
        "above",
        "inside",
        "positive",
        "tanh",
        "factor",
        "none",
        "model",
        "few",
        "absolute",
        "written out",
        "viewed",
        "square inside",
        "a distance",
    ],
)
def test_targets_out_of_the_reach_of_an_activation_are_found(loss, found):
    every = [*out_of_reach(Uses.of(loss(LAYER(X)), {id(LAYER.weight): "layer"}))]
    assert [(one.function, pytest.approx(one.share, abs=0.05)) for one in every] == found
    assert all(one.module == "layer" for one in every)


def test_after_a_backward_targets_are_not_known():
    loss = F.mse_loss(LAYER(X).relu(), BELOW)
    loss.backward()
    assert [*out_of_reach(Uses.of(loss, {}))] == []


def test_a_weight_of_no_module_names_no_layer():
    loss = F.mse_loss(2 * LAYER(X), torch.zeros(8, 5))
    assert [*last_products(Uses.of(loss, {}))] == []


def test_a_weight_that_is_used_twice_names_no_layer():
    loss = F.mse_loss(2 * F.linear(LAYER(X), LAYER.weight.T), torch.zeros(8, 6))
    assert [*last_products(Uses.of(loss, {id(LAYER.weight): "layer"}))] == []


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_loss_by_another_models_last_layer_is_judged(is_frozen):
    judge = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)).requires_grad_(not is_frozen)
    own = {id(LAYER.weight): ""}
    loss = -F.binary_cross_entropy_with_logits(judge(LAYER(X)), torch.zeros(8, 1))
    assert is_judged(Uses.of(loss, own))
    assert is_judged(Uses.of(judge(LAYER(X)).mean(), own))


@pytest.mark.parametrize("make", [lambda: LAYER(X), lambda: F.linear(X, F.normalize(LAYER.weight))])
def test_a_loss_by_ones_own_last_layer_is_not_judged(make):
    own = {id(LAYER.weight): ""}
    assert not is_judged(Uses.of(make().mean(), own))
    assert not is_judged(Uses.of(make().detach().requires_grad_().mean(), own))


MASK = (torch.arange(5) < torch.tensor([[3], [5]])).float().repeat(4, 1)


@pytest.mark.parametrize(
    ("scores", "count"),
    [
        (lambda x: x * MASK, 1),
        (lambda x: MASK * x, 1),
        (lambda x: (x * MASK).view(2, 4, 5), 1),
        (lambda x: x.masked_fill(MASK == 0, -1e9), 0),
        (lambda x: x * torch.ones(8, 5), 0),
        (lambda x: x * 0.0, 0),
        (lambda x: F.dropout(x, 0.5), 0),
        (lambda x: x * MASK - 1e9 * (1 - MASK), 0),
    ],
    ids=["product", "turned", "viewed", "filled", "ones", "a factor", "dropout", "and hidden"],
)
def test_a_mask_that_multiplies_scores_hides_nothing(scores, count):
    uses = Uses.of(scores(LAYER(X)).softmax(-1).square().sum())
    assert len([*masked_by_product(uses)]) == count


def test_after_backward_no_mask_is_known():
    loss = (LAYER(X) * MASK).softmax(-1).square().sum()
    loss.backward()
    assert [*masked_by_product(Uses.of(loss))] == []


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda x: -x.mean(), True),
        (lambda x: x.mean() - x.sum() / 4, True),
        (lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)), False),
        (lambda x: F.softplus(-x).mean(), False),
        (lambda x: (x - 1).square().mean(), False),
    ],
    ids=["score", "difference", "cross entropy", "softplus", "squares"],
)
def test_a_plain_mean_of_what_a_layer_returns_is_a_score(loss, expected):
    layer = torch.nn.Linear(6, 5)
    assert is_score(Uses.of(loss(layer(torch.randn(8, 6))))) is expected
