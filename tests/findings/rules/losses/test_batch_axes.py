"""Layers that take time for the batch."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.losses.batch_axes import batch_axes
from tests.findings.given import evidence, knowing


def of(rate=1.0, spread=None):
    numbers = {("rnn", "OutputGradSampleRate"): rate}
    if spread is not None:
        numbers["rnn", "OutputGradSampleSpread"] = spread
    found = evidence(numbers)
    return knowing(found, batch_axes={"rnn": 1}, shape_before=lambda module: "32×20×16")


@pytest.mark.parametrize(("rate", "spread"), [(1 / 20, 0.9), (1.0, 0.0), (1 / 20, None)])
def test_a_loss_of_one_sample_alone_or_of_the_mean_over_them_is_named(rate, spread):
    (found,) = batch_axes(of(rate, spread))
    assert (found.module, found.severity) == ("rnn", "warning")
    assert "it takes axis 1 for the batch, of an input of shape 32×20×16" in found.text


@pytest.mark.parametrize(
    ("rate", "spread"),
    [
        (1.0, 0.4),
        (1.0, None),
        (1.0, 1e-4),
        (1 / 2, None),  # of two samples one
        (np.linspace(1 / 20, 0.4, 40), None),  # a hinge that most samples satisfy
        (np.where(np.arange(40) % 2, 1 / 20, 1 / 10), None),
        (np.where(np.arange(40) < 39, 1 / 20, 0.0), None),
    ],
)
def test_losses_that_leave_samples_out_are_none(rate, spread):
    assert [*batch_axes(of(rate, spread))] == []


def test_the_only_sample_is_the_mean_of_all():
    known = knowing(of(1.0, 0.0), shape_before=lambda module: "32×1×16")
    assert [*batch_axes(known)] == []


class Last(nn.Module):
    def __init__(self, *, batch_first, axis):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=batch_first)
        self.head, self.axis = nn.Linear(8, 2), axis

    def forward(self, x):
        return self.head(self.rnn(x)[0].select(self.axis, -1))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_preset_tells_the_layer_whose_last_sample_is_taken(batch_first, axis):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Last(batch_first=batch_first, axis=axis))
    for step in range(10):
        out = watched(torch.randn(6, 5, 4))
        nn.functional.cross_entropy(out, torch.randint(2, (len(out),))).backward()
        watched.monitor.track(step)
    named = [one.module for one in watched.monitor.findings if one.kind == "batch_axis"]
    is_wrong = axis == (0 if batch_first else 1)
    assert named == (["rnn"] if is_wrong else [])
