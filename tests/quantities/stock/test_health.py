"""Counts of what is broken, and shares of what a format cannot hold."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.stock.recorded import recorded


def test_nan_and_inf_are_counted_together_and_apart():
    model = taiyi_fx.instrument(nn.Sequential(nn.Identity()), {"0": ["NonFinite"]})
    model(torch.tensor([1.0, torch.nan, torch.inf, -torch.inf]))
    with pytest.warns(taiyi_fx.MonitorWarning, match="the first NaN or Inf"):
        model.monitor.track(0)
    found = model.monitor.get_output()["0"]
    assert {name: of[0] for name, of in found.items()} == {
        "NonFinite": 3, "NonFinite.NaN": 1, "NonFinite.Inf": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("format", "below", "above"), [("float16", 1 / 3, 1 / 3), ("bfloat16", 0, 0)])  # fmt: skip
def test_shares_are_of_elements_that_are_not_zero(format, below, above):  # noqa: A002
    x = torch.tensor([0.0, 1e-6, 1.0, 7e4])
    option = {"format": format}
    assert recorded(nn.Identity(), ["UnderflowRate", "every(1)", option], x)[0] == pytest.approx(
        below
    )
    assert recorded(nn.Identity(), ["OverflowRate", "every(1)", option], x)[0] == pytest.approx(
        above
    )


def test_zeros_have_neither_a_share_nor_a_shape():
    assert recorded(nn.Identity(), "UnderflowRate", torch.zeros(4)) == {}
    assert math.isnan(recorded(nn.Identity(), "Kurtosis", torch.zeros(4))[0])


@pytest.mark.parametrize("others", [0.0, 1.0])
def test_a_share_of_what_has_a_nan_is_nan(others):
    x = torch.tensor([math.nan, others])
    assert math.isnan(recorded(nn.Identity(), "OverflowRate", x)[0])


def test_quantiles_are_named_by_their_shares():
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Identity()),
        {"0": [["Quantiles", "every(1)", {"q": (0.5, 0.125), "exact": True}]]},
    )
    model(torch.arange(9.0))
    model.monitor.track(0)
    found = model.monitor.get_output()["0"]
    assert {name: of[0] for name, of in found.items()} == {"Quantiles.p50": 4, "Quantiles.p12.5": 1}
