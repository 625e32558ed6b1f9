"""Linear layers with nothing between them, and what a layer returns added to itself."""

import pytest
import torch
from torch import nn

import taiyi_fx


def found_in(model, kind):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model)
    for step in range(3):
        loss = watched(torch.randn(12, 8)).square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [found for found in watched.monitor.findings if found.kind == kind]


def layers(act):
    return nn.Sequential(
        *(part for _ in range(5) for part in (nn.Linear(8, 8), act())), nn.Linear(8, 1)
    )


def test_linear_layers_without_activations_are_named():
    (found,) = found_in(layers(nn.Identity), "missing_activation")
    assert (found.severity, found.module) == ("warning", "0")
    assert "'0', '2', '4', '6' and more are one behind the other" in found.text
    assert found_in(layers(nn.Tanh), "missing_activation") == []


class Block(nn.Module):
    def __init__(self, *, is_doubled):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.is_doubled = is_doubled

    def forward(self, x):
        own = self.down(self.up(self.norm(x)).relu())
        return own + (own if self.is_doubled else x)


@pytest.mark.parametrize("count", [1, 3])
def test_a_layer_that_is_added_to_itself_is_named(count):
    model = nn.Sequential(*(Block(is_doubled=True) for _ in range(count)))
    (found,) = found_in(model, "doubled_output")
    assert (found.severity, found.module) == ("warning", "0.down")
    assert ("and that of 2 more likewise" in found.text) == (count == 3)


def test_residual_connections_are_none():
    model = nn.Sequential(*(Block(is_doubled=False) for _ in range(3)))
    assert found_in(model, "doubled_output") == []
