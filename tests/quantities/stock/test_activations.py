"""Sizes and spreads of what goes in and out."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.stock.recorded import recorded


def test_the_norm_of_samples_is_their_mean_and_knows_their_size_if_asked():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert recorded(nn.Identity(), "OutputNorm", x)[0] == pytest.approx(2.5)
    normalized = recorded(nn.Identity(), ["OutputNorm", "every(1)", {"normalize": True}], x)
    assert normalized[0] == pytest.approx(2.5 / math.sqrt(2))


def test_a_single_element_has_a_mean_and_no_spread():
    x = torch.full((1, 1), 7.0)
    assert recorded(nn.Identity(), "InputMean", x)[0] == 7
    assert recorded(nn.Identity(), "InputStd", x) == {}


def test_the_input_is_read_before_the_module_changes_it():
    x = torch.tensor([[-5.0, 1.0]])
    assert recorded(nn.ReLU(inplace=True), "InputAbsMax", x)[0] == 5


def test_massive_features_are_counted_with_the_largest_beside_the_usual_one():
    x = torch.ones(4, 7)
    x[:, 2], x[:, 5], x[::2, 6] = 5.0, -40.0, 12.0  # of half the rows: 12 / sqrt(2)
    model = taiyi_fx.instrument(nn.Sequential(nn.Identity()), {"0": ["OutlierFeatures"]})
    model(x)
    model.monitor.track(0)
    found = {r.quantity: r.value for r in model.monitor.records}
    assert found == {"OutlierFeatures": 2, "OutlierFeatures.largest": pytest.approx(40)}


def test_an_output_without_features_has_no_outliers_and_a_reason():
    model = taiyi_fx.instrument(nn.Sequential(nn.Identity()), {"0": ["OutlierFeatures"]})
    model(torch.ones(4, 0))
    model.monitor.track(0)
    assert "the output has no features" in model.monitor.explain("0", "OutlierFeatures")
