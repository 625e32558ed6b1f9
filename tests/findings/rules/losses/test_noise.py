"""Noise of another scale than its loss takes it for."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.losses.noise import turned_signs
from tests.findings.given import evidence, knowing


class Autoencoder(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.mean, self.logvar, self.decoder = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 6)

    def forward(self, x):
        mean, logvar = self.mean(x), self.logvar(x)
        return self.decoder(mean + torch.randn_like(mean) * self.scale(logvar)), mean, logvar


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (lambda logvar: logvar, "that number itself"),
        (torch.exp, "its exponential"),
        (lambda logvar: torch.exp(0.5 * logvar), ""),
    ],
)
def test_noise_times_a_logarithm_is_told_of_the_layer_that_returns_it(scale, words):
    model = taiyi_fx.instrument(Autoencoder(scale))
    for _ in range(3):
        x = torch.randn(16, 6)
        made, mean, logvar = model(x)
        loss = nn.functional.mse_loss(made, x)
        loss = loss - 0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1).mean()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track()
    found = [one for one in model.monitor.findings if one.kind == "odd_noise"]
    assert [one.module for one in found] == ["logvar"] * bool(words)
    assert all(words in one.text for one in found)


def test_a_logarithm_of_the_wrong_sign_is_told_with_the_layers_that_return_it():
    graphs = {"loss": LossGraph(turned_signs=("layers.0", "layers.1"))}
    known = knowing(evidence({("", "loss"): 1.0}), loss_graphs=graphs)
    (found,) = turned_signs(known)
    assert (found.kind, found.severity, found.module) == ("turned_sign", "warning", "layers.0")
    assert "what 'layers.0' returns as a term" in found.text
    assert [*turned_signs(knowing(known, loss_graphs={"loss": LossGraph()}))] == []
