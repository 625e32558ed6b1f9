"""The training of one width: the loss that is taken, and the modules that are looked at."""

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.coordinates import models


def test_a_loss_of_ones_own_is_taken():
    seen = []

    def loss(y):
        seen.append(y.shape)
        return y.square().sum()

    taiyi_fx.coordinate_check(
        models.standard, models.batch(), widths=(8, 16), steps=2, seeds=1, loss=loss
    )
    assert seen == [(64, models.OUTPUTS)] * 6


class WithLoss(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x, scale):
        output = type("Output", (), {})()
        output.loss = self.fc(x).square().mean() * scale
        return output


def test_a_loss_that_the_model_returns_is_taken_and_arguments_may_have_names():
    found = taiyi_fx.coordinate_check(
        WithLoss, torch.ones(3, 4), scale=2.0, widths=(8, 16), steps=1, seeds=1
    )
    assert [*found.sizes] == ["fc"]


class Wordless(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x):
        self.fc(x)
        return "done"


def test_an_output_without_a_tensor_takes_a_loss():
    with pytest.raises(TypeError, match="returns a str without a tensor: give loss="):
        taiyi_fx.coordinate_check(Wordless, torch.ones(3, 4), widths=(8, 16))
