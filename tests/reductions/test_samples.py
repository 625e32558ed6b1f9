"""Samples of a tensor: how many are reached, and how far they differ."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.reductions import SamplesReached, SampleVariance


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_samples_that_are_not_all_zero_are_counted(axis):
    x = torch.zeros(4, 5, 6)
    x.select(axis, 2).fill_(1e-30)
    x.select(axis, 3)[0, 0] = -2.0
    reduction = SamplesReached(axis)
    a, b = reduction.measure(x), reduction.scale(reduction.measure(torch.ones(4, 5, 6)), 0.5)
    found = reduction.finish(reduction.merge(a, b))
    assert (found.n, found.reached) == (2 * x.shape[axis], 2 + x.shape[axis])
    assert reduction.finish(reduction.measure(torch.zeros(0, 0, 0))).n == 0


def test_an_axis_that_is_not_there_is_an_error():
    with pytest.raises(IndexError, match="the axis is 3, but the tensor has 2 axes"):
        SamplesReached(3).measure(torch.zeros(2, 2))
    with pytest.raises(ValueError, match="axis must be 0 or 1, not 2"):
        SampleVariance(2)
    with pytest.raises(ValueError, match="a tensor of 1 axes has no samples and places"):
        SampleVariance(1).measure(torch.zeros(2))


@pytest.mark.parametrize("axis", [0, 1])
def test_deviations_are_those_from_means(axis):
    x = torch.randn(4, 5, 6, dtype=torch.float64)
    reduction = SampleVariance(axis)
    found = reduction.finish(reduction.scale(reduction.measure(x), 2.0))
    assert found.within == pytest.approx(4 * (x.var(axis, correction=0) * x.shape[axis]).sum())
    assert found.total == pytest.approx(4 * (x.var((0, 1), correction=0) * 20).sum())
    assert found.empty == 0
    x.select(1 - axis, 1).zero_()
    assert reduction.finish(reduction.measure(x)).empty == 1


class Reader(nn.Module):
    """A recurrent layer whose last or mean output along an axis is classified."""

    def __init__(self, axis, *, is_mean=False):
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 4), nn.Linear(4, 2)
        self.axis, self.is_mean = axis, is_mean

    def forward(self, x):
        y = self.rnn(x)[0]
        y = y.mean(self.axis) if self.is_mean else y.select(self.axis, -1)
        return self.head(y)


@pytest.mark.parametrize(
    ("axis", "is_mean", "rate", "is_same"),
    [(0, False, 1.0, None), (1, False, 1 / 6, False), (0, True, 1.0, False), (1, True, 1.0, True)],
)
def test_a_layer_without_batch_first_shows_which_axis_the_loss_takes_for_time(
    axis, is_mean, rate, is_same
):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Reader(axis, is_mean=is_mean))
    out = watched(torch.randn(5, 6, 3))
    nn.functional.cross_entropy(out, torch.randint(2, (len(out),))).backward()
    watched.monitor.track(0)
    found = watched.monitor.get_output()["rnn"]
    assert found["OutputGradSampleRate"][0] == pytest.approx(rate)
    spread = found.get("OutputGradSampleSpread", {}).get(0)
    assert spread is None if is_same is None else (spread < 1e-12) is is_same
