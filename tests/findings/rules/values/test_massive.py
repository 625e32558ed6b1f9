"""Massive activations."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.values.massive import massive_activations
from tests.findings.given import evidence

LARGEST = "OutlierFeatures.largest"


def test_all_layers_with_one_are_one_note():
    numbers = {("h.0", LARGEST): 4.0, ("h.2", LARGEST): 2500.0}
    numbers |= {("h.1", LARGEST): np.where(np.arange(40) < 7, 4.0, 1500.0)}
    (found,) = massive_activations(evidence(dict(sorted(numbers.items()))))
    assert (found.kind, found.severity, found.step) == ("massive_activations", "note", 7)
    assert "of the output of 'h.1' and 'h.2' is 1.5e+03 times the median feature" in found.text


@pytest.mark.parametrize(
    "values",
    [
        6.0,
        200.0,  # an outlier feature
        np.inf,  # half of all features are dead
        np.where(np.arange(40) < 19, 5000.0, 10.0),
        [5000.0] * 7,
    ],
)
def test_usual_features_are_none(values):
    assert [*massive_activations(evidence({("h.1", LARGEST): values}))] == []


class Block(nn.Module):
    """A residual block."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize(("size", "modules"), [(0.0, []), (3000.0, ["1"])])
def test_a_bias_that_makes_one_is_found_in_a_training(size, modules):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), Block(), nn.LayerNorm(32))
    with torch.no_grad():
        model[1].down.bias[5] += size  # as a massive activation is made in one layer
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, "transformer", optimizer=optimizer)
    for step in range(20):
        x = torch.randn(8, 12, 32)
        F.mse_loss(watched(x), x).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert [one.module for one in every if one.kind == "massive_activations"] == modules
