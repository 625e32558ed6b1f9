"""Dead and active features."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.stock.recorded import recorded

X = torch.tensor([[0.0, 1.0, -3.0, 2.0], [0.0, 0.0, -1.0, 2.0]])


@pytest.mark.parametrize(("quantity", "share"), [
    ("OutputActivationRate", (0 + 0.5 + 1 + 1) / 4),
    ("OutputDeathRate", 1 / 4),
    ("DeadNeuronRatio", 2 / 4),
    ("LinearDeadNeuronNum", 0.0),
    (["LinearDeadNeuronNum", "every(1)", {"threshold": -0.5}], 1 / 4),
])  # fmt: skip
def test_shares_are_of_features(quantity, share):
    assert recorded(nn.Identity(), quantity, X)[0] == pytest.approx(share)


@pytest.mark.parametrize("quantity", ["OutputDeathRate", "DeadNeuronRatio"])
def test_nothing_is_said_to_be_alive_or_dead_without_numbers(quantity):
    assert math.isnan(recorded(nn.Identity(), quantity, torch.full((2, 3), torch.nan))[0])
    with pytest.warns(taiyi_fx.MonitorWarning, match="nothing came"):
        assert recorded(nn.Identity(), quantity, torch.zeros(0, 3), X).keys() == {1}
