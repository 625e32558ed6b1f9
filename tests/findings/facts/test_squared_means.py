"""Squares of a mean of differences."""

import pytest
import torch

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.squared_means import squared_means

X, Y = torch.randn(32, 4), torch.randn(32, 1)


def found(make):
    w = torch.randn(4, 1, requires_grad=True)
    return len([*squared_means(Uses.of(make(X @ w)))])


@pytest.mark.parametrize(
    "make",
    [
        lambda out: (out - Y).mean() ** 2,
        lambda out: (Y - out).mean().square(),
        lambda out: 3 * (Y + out).mean().pow(2) + out.pow(2).mean(),
        lambda out: (1 - out).flatten().mean() ** 2,
    ],
)
def test_a_square_of_the_mean_of_differences_is_found(make):
    assert found(make) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda out: (out - Y).pow(2).mean(),
        lambda out: ((out - Y).mean() - 1) ** 2,
        lambda out: (out - Y).mean(0).pow(2).sum(),
        lambda out: out.sigmoid().mean() ** 2,
        lambda out: (out - Y).mean() ** 3,
        lambda out: (out - Y)[:4].mean() ** 2,
    ],
)
def test_others_are_none(make):
    assert found(make) == 0
