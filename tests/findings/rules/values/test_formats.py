"""Values that a narrower format does not hold: out of its range, or below its noise."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.values.formats import keep_wider, massive_activations, out_of_range
from tests.findings.given import evidence


@pytest.mark.parametrize(
    ("quantity", "share", "word"),
    [("OverflowRate", 1e-3, "large"), ("OutputGradUnderflowRate", 0.7, "small")],
)
def test_shares_out_of_range_are_told_by_their_end(quantity, share, word):
    (found,) = out_of_range(evidence({("fc", quantity): share}))
    assert (found.kind, found.severity, found.value) == ("out_of_range", "warning", share)
    assert f"too {word} for the format" in found.text


def test_a_little_that_underflows_is_none():
    numbers = {("fc", "OutputGradUnderflowRate"): 0.2, ("fc", "OverflowRate"): 0.0}
    assert [*out_of_range(evidence(numbers))] == []


SQNR = "InputSQNR.typical"


def found(numbers):
    return [*keep_wider(evidence({(name, SQNR): value for name, value in numbers.items()}))]


def test_they_are_ranked_and_the_worst_is_named():
    (one,) = found({"a": 31, "b": 30, "c": 22, "d": 31, "e": 12, "f": 30})
    assert (one.kind, one.severity, one.module, one.value) == ("keep_wider", "note", "e", 12)
    assert one.text.endswith("less have 'e' (12 dB), 'c' (22 dB)")
    assert "half of all sites have 30 dB or more" in one.text
    assert "bfloat16" in one.advice


def test_ten_of_them_are_counted():
    (one,) = found({**{f"low{i}": 10 for i in range(10)}, **{f"high{i}": 30 for i in range(12)}})
    assert one.text.endswith("and 2 more")


def test_usual_differences_few_sites_and_few_numbers_say_nothing():
    assert found({"a": 31, "b": 30, "c": 26, "d": 31}) == []
    assert found({"a": 31, "b": 30, "c": 12}) == []
    assert found({name: np.array([30.0] * 4) for name in "abc"} | {"d": [2.0] * 4}) == []


def test_sites_that_lose_nothing_or_are_zero_are_not_compared():
    """As gains of 1, and biases of 0, among weights."""
    assert found({"a": np.inf, "b": np.inf, "c": np.inf, "d": 30}) == []
    others = {"n": np.inf, "o": np.inf, "p": np.nan, "q": np.inf, "r": np.inf, "s": np.inf}
    assert found({"a": 31, "b": 30, "c": 29, "d": 31} | others) == []
    (one,) = found({"a": 31, "b": 30, "c": 12, "d": 31} | others)
    assert (one.module, "half of all sites have 30 dB" in one.text) == ("c", True)


LARGEST = "OutlierFeatures.largest"


def test_all_layers_with_one_are_one_note():
    numbers = {("h.0", LARGEST): 4.0, ("h.2", LARGEST): 2500.0}
    numbers |= {("h.1", LARGEST): np.where(np.arange(40) < 7, 4.0, 1500.0)}
    (found,) = massive_activations(evidence(dict(sorted(numbers.items()))))
    assert (found.kind, found.severity, found.step) == ("massive_activations", "note", 7)
    assert "of the output of 'h.1' and 'h.2' is 1.5e+03 times the median feature" in found.text


@pytest.mark.parametrize(
    "values",
    [
        6.0,
        200.0,  # an outlier feature
        np.inf,  # half of all features are dead
        np.where(np.arange(40) < 19, 5000.0, 10.0),
        [5000.0] * 7,
    ],
)
def test_usual_features_are_none(values):
    assert [*massive_activations(evidence({("h.1", LARGEST): values}))] == []


class Block(nn.Module):
    """A residual block."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize(("size", "modules"), [(0.0, []), (3000.0, ["1"])])
def test_a_bias_that_makes_one_is_found_in_a_training(size, modules):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), Block(), nn.LayerNorm(32))
    with torch.no_grad():
        model[1].down.bias[5] += size  # as a massive activation is made in one layer
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, "transformer", optimizer=optimizer)
    for step in range(20):
        x = torch.randn(8, 12, 32)
        F.mse_loss(watched(x), x).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert [one.module for one in every if one.kind == "massive_activations"] == modules
