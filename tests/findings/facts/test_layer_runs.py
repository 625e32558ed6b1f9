"""Linear layers that nothing parts, and sums of what a layer returns with itself."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import Uses, name_of
from taiyi_fx.findings.facts.layer_runs import doubled_layers, linear_runs

X = torch.randn(4, 3, 8)


def runs(model, x=X):
    loss = model(x).square().mean()
    return linear_runs(Uses.of(loss), owners_of(dict(model.named_modules())))


def linear(*widths, between=nn.Identity):
    layers = [[nn.Linear(a, b), between()] for a, b in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in layer))


@pytest.mark.parametrize("between", [nn.Identity, lambda: nn.Dropout(0.5)], ids=["", "dropout"])
@pytest.mark.parametrize("x", [X, X[0]], ids=["tokens", "rows"])
def test_three_layers_with_nothing_between_them_are_a_run_in_order(between, x):
    assert runs(linear(8, 16, 16, 2, between=between), x) == (("0", "2", "4"),)


@pytest.mark.parametrize(
    "model",
    [
        linear(8, 16, 16, 2, between=nn.ReLU),
        linear(8, 16, 2),
        linear(8, 2, 8, 8),
        nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)),
        nn.Sequential(nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8), nn.Linear(8, 8)),
    ],
    ids=["relu", "two", "low rank", "norm", "frozen"],
)
def test_layers_that_something_parts_or_factors_of_a_matrix_are_none(model):
    assert runs(model) == ()


LAYER = nn.Linear(8, 8)
CONV = nn.Conv1d(3, 3, 3, padding=1)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (lambda: [LAYER(X)] * 2, 1),
        (lambda: [CONV(X)] * 2, 1),
        (lambda: [F.dropout(LAYER(X), 0.5)] * 2, 1),
        (lambda: [LAYER(X), LAYER(X)], 0),
        (lambda: [LAYER(X).relu()] * 2, 0),
        (lambda: [LAYER(X).mean()] * 2, 0),
        (lambda: [LAYER(X), X], 0),
    ],
    ids=["layer", "convolution", "dropout", "two calls", "activation", "a number", "residual"],
)
def test_a_layer_that_is_added_to_itself_is_found(made, count):
    x, other = made()
    found = doubled_layers(Uses.of((x + other).square().mean()))
    assert [name_of(node) for node in found] == ["Add"] * count


def test_products_and_halves_of_one_tensor_are_no_sums():
    x = LAYER(X)
    one, other = x.chunk(2, -1)
    assert doubled_layers(Uses.of((x * x).mean() + (one + other).mean())) == []
