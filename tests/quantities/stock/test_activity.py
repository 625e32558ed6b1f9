"""Dead and active features."""

import math

import pytest
import torch
from torch import nn

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
    broken, none = torch.full((2, 3), torch.nan), torch.zeros(0, 3)
    found = recorded(nn.Identity(), quantity, broken, none, X)
    assert list(found) == [0, 2]
    assert math.isnan(found[0])


def test_what_is_infinitely_low_is_dead():
    x = torch.tensor([[-torch.inf, 1.0]])
    assert recorded(nn.Identity(), "DeadNeuronRatio", x)[0] == 0.5
