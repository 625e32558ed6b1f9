"""Sizes of weights, and flips of their signs."""

import pytest
import torch
from torch import nn

import taiyi_fx


def test_flips_are_counted_since_the_last_due_step_and_zero_is_no_side():
    layer = nn.Linear(2, 2, bias=False)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["WeightParamJump", "WeightNorm"]})
    weights = [[[1.0, -1.0], [2.0, 0.0]], [[-1.0, -1.0], [-2.0, 5.0]], [[-1.0, -1.0], [0.0, 5.0]]]
    for step, weight in enumerate(weights):
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weight))
        model(torch.ones(1, 2))
        model.monitor.track(step)
    found = model.monitor.get_output()["0"]
    assert found["WeightParamJump"] == {0: 0, 1: 2, 2: 0}
    assert found["WeightNorm"][1] == pytest.approx(31**0.5)
