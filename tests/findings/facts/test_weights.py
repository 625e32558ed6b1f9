"""Weights of a loss's elements."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.weights import odd_weights, weighted_means

CASES = 400
RARE = (torch.arange(CASES) % 20 == 0).float()
OF_FOUR = torch.multinomial(
    torch.tensor([0.6, 0.25, 0.1, 0.05]), CASES, True, generator=torch.Generator().manual_seed(0)
)
COUNTS = torch.bincount(OF_FOUR).float()


def of_two(weight, targets=RARE):
    logits = torch.zeros(targets.shape, requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight)
    return odd_weights(Uses.of(loss))


def of_classes(weight, targets=OF_FOUR):
    logits = torch.zeros(len(targets), 4, requires_grad=True)
    return odd_weights(Uses.of(F.cross_entropy(logits, targets, weight=weight)))


def test_a_positive_weight_that_is_the_odds_of_a_rare_yes_is_found():
    found = of_two(torch.tensor(0.05))
    assert found.is_of_two
    assert (found.weight, found.share) == (pytest.approx(0.05), pytest.approx(0.05))
    many = RARE[:, None].expand(-1, 3).contiguous()
    assert of_two(torch.tensor([0.05, 0.06, 19.0]), many) is not None


@pytest.mark.parametrize(
    "found",
    [
        of_two(None),
        of_two(torch.tensor(1.0)),
        of_two(torch.tensor(19.0)),
        of_two(torch.tensor(1.0), 1 - RARE),
        of_two(torch.tensor(0.05), RARE[:20]),
        of_two(torch.tensor([19.0, 19.0, 0.05]), RARE[:, None].expand(-1, 3).contiguous()),
        of_two(torch.full((2, 1, 1), 0.05), RARE.view(2, 2, 10, 10)),
    ],
    ids=["none", "one", "its inverse", "usual", "few", "one of three", "of channels"],
)
def test_other_positive_weights_are_none(found):
    assert found is None


@pytest.mark.parametrize("weight", [COUNTS, COUNTS / COUNTS.sum(), COUNTS.sqrt()])
def test_weights_of_classes_that_follow_their_counts_are_found(weight):
    found = of_classes(weight)
    assert not found.is_of_two
    assert found.weight == pytest.approx(float(weight[3]))
    assert found.share == pytest.approx(float(COUNTS[3]) / CASES)


@pytest.mark.parametrize(
    "found",
    [
        of_classes(None),
        of_classes(torch.ones(4)),
        of_classes(1 / COUNTS),
        of_classes(torch.tensor([1.0, 2.0, 1.0, 2.0])),
        of_classes(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.arange(CASES) % 4),
        of_classes(torch.tensor([0.0, 1.0, 1.0, 1.0])),
        of_classes(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.zeros(CASES, dtype=torch.long)),
    ],
    ids=["none", "ones", "their inverse", "others", "as many", "one left out", "one class"],
)
def test_other_weights_of_classes_are_none(found):
    assert found is None


def test_after_a_backward_nothing_is_known():
    logits = torch.zeros(CASES, requires_grad=True)
    weight, mask = torch.tensor(0.05), RARE
    loss = F.binary_cross_entropy_with_logits(logits, RARE, pos_weight=weight)
    loss = (loss * mask).sum()
    assert [*weighted_means(Uses.of(loss))] == [(CASES,)]
    loss.backward()
    assert odd_weights(Uses.of(loss)) is None
    assert [*weighted_means(Uses.of(loss))] == []


X = torch.randn(8, 4, requires_grad=True)
MASK = (torch.arange(32) % 3 > 0).float().view(8, 4)
Y = torch.zeros(8, 4)


@pytest.mark.parametrize(
    "loss",
    [
        lambda: (F.mse_loss(X, Y) * MASK).sum() / MASK.sum(),
        lambda: (MASK * (X - Y).square().mean()).mean(),
        lambda: (F.cross_entropy(X, MASK.long()[:, 0]) * MASK[:, 0]).mean() + X.mean(),
    ],
    ids=["error", "written out", "a term"],
)
def test_a_mask_behind_the_mean_is_found(loss):
    ((first, *_),) = weighted_means(Uses.of(loss()))
    assert first == 8


@pytest.mark.parametrize(
    "loss",
    [
        lambda: (F.mse_loss(X, Y, reduction="none") * MASK).sum() / MASK.sum(),
        lambda: F.mse_loss(X, Y) * 0.5,
        lambda: (F.mse_loss(X, Y) * torch.ones(3)).mean(),
        lambda: (X.mean(1) * MASK[:, 0]).mean(),
        lambda: (X.mean() * MASK).square().tanh().sum(),
    ],
    ids=["of each element", "a factor", "ones", "of rows", "within the model"],
)
def test_other_products_are_none(loss):
    assert [*weighted_means(Uses.of(loss()))] == []
