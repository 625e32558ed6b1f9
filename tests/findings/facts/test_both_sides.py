"""Functions on the way to a loss both of whose operands are computed."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.both_sides import (
    moving_targets,
    odd_ratios,
    overlaps_of_logits,
    pulled_alone,
)

LAYER = nn.Linear(6, 5)
X = torch.randn(8, 6)
OTHER = nn.Linear(6, 5)
OWNERS = {id(LAYER.weight): "layer", id(OTHER.weight): "other"}


@pytest.mark.parametrize(
    ("loss", "modules"),
    [
        (lambda: F.mse_loss(LAYER(X), 1 + 0.9 * LAYER(X.flip(0))), ["layer"]),
        (lambda: F.smooth_l1_loss(LAYER(X).sum(1), LAYER(X.flip(0)).amax(1)), ["layer"]),
        (lambda: F.mse_loss(LAYER(X), LAYER(X.flip(0)).detach()), []),
        (lambda: F.mse_loss(LAYER(X), OTHER(X)), []),
        (lambda: F.mse_loss(LAYER(X), torch.ones(8, 5)), []),
        (
            lambda: F.kl_div(LAYER(X).log_softmax(1), OTHER(X).softmax(1), reduction="sum"),
            ["other"],
        ),
        (
            lambda: F.kl_div(
                LAYER(X).log_softmax(1), OTHER(X).softmax(1).detach(), reduction="sum"
            ),
            [],
        ),
    ],
    ids=[
        "of the next state",
        "huber",
        "detached",
        "of another",
        "of data",
        "of a teacher",
        "of one at rest",
    ],
)
def test_an_error_both_sides_of_which_get_gradients_has_a_moving_target(loss, modules):
    assert [*moving_targets(Uses.of(loss(), OWNERS))] == modules


def overlap(shares, target):
    inside = (shares * target).flatten(1).sum(1)
    return (1 - (2 * inside + 1) / (shares.flatten(1).sum(1) + target.flatten(1).sum(1) + 1)).mean()


CONVOLUTION = nn.Conv2d(1, 1, 3, padding=1)
IMAGES = torch.randn(4, 1, 6, 6)


@pytest.mark.parametrize(
    ("shares", "count"),
    [
        (lambda x: x, 1),
        (lambda x: x.view(4, 36), 1),
        (torch.sigmoid, 0),
        (lambda x: x.softmax(-1), 0),
        (lambda x: x.clamp(0, 1), 0),
    ],
    ids=["logits", "viewed", "sigmoid", "softmax", "bounded"],
)
def test_an_overlap_of_what_a_layer_returns_is_of_no_shares(shares, count):
    made = shares(CONVOLUTION(IMAGES))
    loss = overlap(made, (torch.rand(made.shape) > 0.5).float())
    assert len([*overlaps_of_logits(Uses.of(loss + made.mean()))]) == count


def test_means_and_quotients_are_no_overlaps():
    x = LAYER(X)
    assert [*overlaps_of_logits(Uses.of((x / x.sum(1, keepdim=True)).mean()))] == []
    weighted = (x * torch.rand(8, 5)).sum() / torch.rand(8, 5).sum()
    assert [*overlaps_of_logits(Uses.of(weighted))] == []


@pytest.mark.parametrize(("factor", "shares"), [(1.0, [0.0]), (1.01, [1.0])])
def test_ratios_that_are_not_one_are_counted(factor, shares):
    new = LAYER(X).log_softmax(1)[:, 0]
    ratio = (new - (new / factor).detach()).exp()
    loss = torch.min(ratio * X[:, 0], ratio.clamp(0.8, 1.2) * X[:, 0]).mean()
    assert [*odd_ratios(Uses.of(loss))] == shares
    loss.backward()
    assert [*odd_ratios(Uses.of(loss))] == []


def test_other_smaller_ones_have_no_ratio():
    x = LAYER(X)
    assert [*odd_ratios(Uses.of(torch.min(x.exp(), x.exp().clamp(0, 1)).mean()))] == []


ENCODER, PREDICTOR, STRANGER = nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(6, 4)
PARTS = {id(ENCODER.weight): "encoder", id(PREDICTOR.weight): "predictor"}
VIEWS = [torch.randn(16, 6) for _ in range(2)]


def of_cosines(target):
    first, second = (ENCODER(x) for x in VIEWS)
    both = ((PREDICTOR(first), target(second)), (PREDICTOR(second), target(first)))
    return -sum(F.cosine_similarity(p, z, dim=1).mean() for p, z in both) / 2


def of_unit_vectors():
    first, second = (F.normalize(ENCODER(x), dim=1) for x in VIEWS)
    return 2 - 2 * (first * second).sum(1).mean()


def of_errors():
    return F.mse_loss(PREDICTOR(ENCODER(VIEWS[0])), ENCODER(VIEWS[1]))


def of_pairs():
    first, second = (F.normalize(ENCODER(x), dim=1) for x in VIEWS)
    return F.cross_entropy(first @ second.T / 0.1, torch.arange(16))


def with_a_margin():
    first, second = (ENCODER(x) for x in VIEWS)
    apart = F.cosine_similarity(first, second.flip(0)).sub(0.5).clamp(min=0).mean()
    return apart - F.cosine_similarity(first, second).mean()


@pytest.mark.parametrize(
    ("loss", "module"),
    [
        (lambda: of_cosines(lambda z: z), "predictor"),
        (lambda: of_cosines(torch.Tensor.detach), None),
        (of_unit_vectors, "encoder"),
        (of_errors, "predictor"),
        (of_pairs, None),
        (with_a_margin, None),
        (lambda: F.mse_loss(ENCODER(VIEWS[0]), STRANGER(VIEWS[0])), None),
        (lambda: F.mse_loss(ENCODER(VIEWS[0]), 1 + 0.9 * ENCODER(VIEWS[1])), None),
        (lambda: F.mse_loss(ENCODER(VIEWS[0]), torch.zeros(16, 4)), None),
        (lambda: of_errors() + F.mse_loss(ENCODER(VIEWS[0]), torch.zeros(16, 4)), None),
    ],
    ids=[
        *("cosines", "a stop-gradient", "unit vectors", "errors", "pairs", "a margin"),
        *("two models", "a return", "a target", "another term"),
    ],
)
def test_what_is_pulled_together_and_held_apart_by_nothing_is_found(loss, module):
    assert pulled_alone(Uses.of(loss(), PARTS)) == module
