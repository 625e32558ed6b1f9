"""Sizes and spreads of what goes in and out."""

import math

import pytest
import torch
from torch import nn

from tests.quantities.stock.recorded import recorded


def test_the_norm_of_samples_is_their_mean_and_knows_their_size_if_asked():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert recorded(nn.Identity(), "OutputNorm", x)[0] == pytest.approx(2.5)
    normalized = recorded(nn.Identity(), ["OutputNorm", "every(1)", {"normalize": True}], x)
    assert normalized[0] == pytest.approx(2.5 / math.sqrt(2))


def test_a_single_element_has_a_mean_and_no_spread():
    x = torch.full((1, 1), 7.0)
    assert recorded(nn.Identity(), "InputMean", x)[0] == 7
    assert math.isnan(recorded(nn.Identity(), "InputStd", x)[0])


def test_the_input_is_read_before_the_module_changes_it():
    x = torch.tensor([[-5.0, 1.0]])
    assert recorded(nn.ReLU(inplace=True), "InputAbsMax", x)[0] == 5
