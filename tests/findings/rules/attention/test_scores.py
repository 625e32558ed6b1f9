"""Attentions that multiply where they are to divide."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Attention(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.qkv, self.proj = scale, nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        return x + self.proj((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_grow_with_their_features_are_told(sign):
    model = nn.Sequential(Attention(8 ** (0.5 * sign)), Attention(8 ** (0.5 * sign)))
    model = taiyi_fx.instrument(model, optimizer=torch.optim.Adam(model.parameters()))
    for step in range(12):
        loss = model(torch.randn(4, 5, 16)).square().mean()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
    found = [one for one in model.monitor.findings if one.kind == "grown_scores"]
    assert len(found) == (sign > 0)
    for one in found:
        assert (one.module, one.severity) == ("0.qkv", "warning")
        assert one.text == (
            "on the way to 'loss', scores behind '0.qkv' are multiplied by 2.83, the square root "
            "of the 8 features of a head, and so are those of 1 more"
        )
