"""Functions on the way to a loss both of whose operands are computed."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.both_sides import moving_targets, odd_ratios, overlaps_of_logits

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
    assert [*moving_targets(Uses.of(loss()), OWNERS)] == modules


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
