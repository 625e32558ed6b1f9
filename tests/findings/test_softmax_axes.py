"""Softmaxes of scores over an axis that is not the last."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Block(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.q, self.k, self.v, self.axis = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), axis

    def forward(self, x):
        q, k, v = (y(x).unflatten(-1, (2, 4)).transpose(1, 2) for y in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) / 2).softmax(self.axis)
        return x + (weights @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ([-1, -1, 1], [("2.attention()", "warning")]),
        ([-2, -2, -2], [("0.attention()", "note")]),
        ([-1, -1, 3], []),
    ],
)
def test_an_axis_that_siblings_do_not_take_is_a_warning(axes, told):
    watched = taiyi_fx.instrument(nn.Sequential(*map(Block, axes)), "transformer")
    for step in range(3):
        watched(torch.randn(4, 6, 8)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "softmax_axis"]
    assert [(one.module, one.severity) for one in found] == told
    assert all("scores of shape (4, 2, 6, 6)" in one.text for one in found)
