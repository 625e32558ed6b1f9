"""Means along an axis that meet another one, and sizes along the samples."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.lost_axes import lost_axes, sizes_over_samples

N = 12
LAYER = nn.Linear(6, N)
X, Y = torch.randn(N, 6), torch.randint(N, (N,))


def centred(x):
    return x - x.mean(1)


def standardised(x):
    return (x - x.mean(1, keepdim=True)) / (x.std(1) + 1e-3)


LOST = {
    "a mean": centred,
    "a deviation": standardised,
    "a sum": lambda x: x.exp() / x.exp().sum(1),
    "a norm": lambda x: x / x.norm(dim=1),
}
KEPT = {
    "axes that are kept": lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
    "the first axis": lambda x: (x - x.mean(0)) / x.std(0),
    "unsqueezed": lambda x: x - x.mean(1).unsqueeze(1),
    "the mean of another": lambda x: x - LAYER(X.flip(0)).mean(1),
    "all": lambda x: x / x.sum(),
}


def uses(make):
    return Uses.of(F.cross_entropy(make(LAYER(X)), Y))


@pytest.mark.parametrize("make", LOST.values(), ids=LOST)
def test_a_mean_whose_axis_is_not_kept_meets_another_axis(make):
    (found, *_) = [shapes for _, *shapes in lost_axes(uses(make))]
    of, given = found
    assert len(given) < len(of)
    assert set(of) == {N}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_means_that_meet_their_own_axis_are_none(make):
    assert [*lost_axes(uses(make))] == []


@pytest.mark.parametrize("make", [lambda x: F.normalize(x, dim=0), lambda x: x / x.norm(dim=0)])
def test_a_size_along_the_samples_is_seen(make):
    ((_, shape, _),) = sizes_over_samples(uses(make))
    assert shape == (N, N)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: F.normalize(x, dim=1),
        lambda x: x @ F.normalize(torch.randn(N, N), dim=0),
        lambda x: x / x.norm(),
    ],
    ids=["features", "a constant", "all"],
)
def test_other_sizes_are_none(make):
    assert [*sizes_over_samples(uses(make))] == []
