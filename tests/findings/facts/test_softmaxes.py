"""Softmaxes over samples, and of one element."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.softmaxes import odd_softmaxes
from tests.findings.facts.losses import (
    IMAGES,
    LABELS,
    SEQUENCES,
    VALUES,
    K,
    N,
    T,
    X,
    conv,
    looked_at,
    many,
    one,
    pooled,
    routed,
)

SOFTMAX_OVER_SAMPLES = {
    "router": lambda: F.mse_loss(routed(0), torch.zeros(N, 4)),
    "router with a balance": lambda: (
        F.mse_loss(routed(0), torch.zeros(N, 4)) + (many(X).softmax(0).mean(0) ** 2).sum()
    ),
    "mixture": lambda: (many(X).softmax(0) @ torch.randn(K, 3)).square().mean(),
    "probabilities": lambda: F.nll_loss(many(X).softmax(0).clamp(min=1e-9).log(), LABELS),
    "logarithms": lambda: -(many(X).log_softmax(0) * F.one_hot(LABELS, K)).sum(1).mean(),
    "pooling": lambda: pooled(0, 1).square().mean(),
    "pooling by a product": lambda: (
        (one(SEQUENCES).squeeze(-1).softmax(0).unsqueeze(1) @ VALUES).squeeze(1).square().mean()
    ),
    "tokens": lambda: (many(SEQUENCES.flatten(0, 1)).softmax(0) ** 2).view(N, T, K).mean(),
}
SOFTMAX_OF_ONE = {
    "the one best": lambda: many(X).topk(1).values.softmax(-1).mean(),
    "one logit": lambda: F.nll_loss(one(X).softmax(1).log(), torch.zeros(N).long()),
    "one class": lambda: F.cross_entropy(one(X), torch.zeros(N).long()),
    "pooling": lambda: pooled(-1, 1).square().mean(),
    "one channel": lambda: F.mse_loss(conv(IMAGES).softmax(1), IMAGES[:, :1]),
}


@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize("made", SOFTMAX_OVER_SAMPLES.values(), ids=SOFTMAX_OVER_SAMPLES)
def test_a_softmax_over_samples_is_seen(made, after_backward):
    found = looked_at(made, after_backward=after_backward).softmaxes
    assert [(x.axis, x.is_of_one, x.shape[0] % N) for x in found[:1]] == [(0, False, 0)]
    assert found[0].module in ("one", "many")


@pytest.mark.parametrize(("axis", "n", "is_found"), [(0, N, True), (1, N, False), (0, 7, False)])
def test_logarithms_at_a_temperature_are_seen_before_backward_frees_it(axis, n, is_found):
    def loss():
        logarithms = F.log_softmax(many(X) / 3, axis)
        return 9 * F.kl_div(logarithms, torch.rand(N, K), reduction="sum") / n

    assert len(looked_at(loss, after_backward=False).softmaxes) == is_found


@pytest.mark.parametrize(
    ("make", "is_found"),
    [
        (lambda maps: maps.softmax(-1), True),
        (lambda maps: maps.softmax(2), True),
        (lambda maps: maps.softmax(1), False),
        (lambda maps: maps.flatten(2).softmax(-1), False),
        (lambda maps: maps.mean(2).softmax(-1), False),
        (lambda maps: maps.log_softmax(1), False),
    ],
)
def test_a_softmax_along_a_row_of_what_a_convolution_makes_is_seen(make, is_found):
    layer = torch.nn.Conv2d(IMAGES.shape[1], 3, 1)
    found = [*odd_softmaxes(Uses.of(make(layer(IMAGES)).square().mean()))]
    assert [one.is_of_places for one in found] == [True] * is_found


@pytest.mark.parametrize("made", SOFTMAX_OF_ONE.values(), ids=SOFTMAX_OF_ONE)
def test_a_softmax_of_one_element_is_seen(made):
    (found,) = looked_at(made, after_backward=True).softmaxes
    assert found.is_of_one
    assert found.is_of_best == (made is SOFTMAX_OF_ONE["the one best"])
    assert found.module in ("one", "many", "conv")
