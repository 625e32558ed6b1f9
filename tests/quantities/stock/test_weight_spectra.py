"""Spectra of weights that are large enough for tails, and for Lanczos."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.references.weights import power_law, singular_values

ALL = ["WeightSpectralNorm", "WeightStableRank", "WeightAlpha"]


def heavy(shape, exponent, dtype=torch.float32):
    """A weight whose singular values fall by a power."""
    rows, columns = shape[0], int(np.prod(shape[1:]))
    u, s, v = torch.linalg.svd(torch.randn(rows, columns).double(), full_matrices=False)
    s = torch.arange(1, len(s) + 1).double() ** -exponent
    return (u * s @ v).reshape(shape).to(dtype)


def recorded(layer, quantities):
    watched = taiyi_fx.instrument(layer, {"": quantities})
    watched.monitor.track(0)
    found = watched.monitor.get_output().get("", {})
    return {name: of[0] for name, of in found.items()}, watched.monitor


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layer", [
    nn.Linear(80, 60), nn.Linear(60, 300), nn.Conv2d(12, 64, 3), nn.Embedding(500, 64),
    nn.ConvTranspose2d(64, 8, 3), nn.Linear(700, 600),
], ids=str)  # fmt: skip
def test_they_are_those_of_the_weight_as_a_matrix(layer, dtype):
    torch.manual_seed(0)
    layer = layer.to(dtype)
    with torch.no_grad():
        layer.weight.copy_(heavy(layer.weight.shape, 0.7, dtype))
    found, _ = recorded(layer, ALL)
    sigma = singular_values(layer.weight.detach().double())
    assert found["WeightSpectralNorm"] == pytest.approx(sigma[0], rel=1e-5)
    stable = (sigma**2).sum() / sigma[0] ** 2
    assert found["WeightStableRank"] == pytest.approx(stable, rel=1e-5)
    alpha, distance = power_law((sigma**2).tolist())
    assert found["WeightAlpha"] == pytest.approx(alpha, rel=1e-5)
    assert found["WeightAlpha.distance"] == pytest.approx(distance, rel=1e-4)


def test_equal_readings_are_made_once(monkeypatch):
    from taiyi_fx.reductions import WeightMatrix

    made = []
    finish = WeightMatrix.finish
    monkeypatch.setattr(WeightMatrix, "finish", lambda self, s: made.append(s) or finish(self, s))
    recorded(nn.Linear(60, 60), ALL)
    assert len(made) == 1


def test_another_parameter_is_named_by_the_option():
    layer = nn.MultiheadAttention(16, 2)
    entry = ["WeightSpectralNorm", "every(1)", {"param": "in_proj_weight"}]
    found, _ = recorded(layer, [entry])
    expected = singular_values(layer.in_proj_weight.detach().double())[0]
    assert found["WeightSpectralNorm"] == pytest.approx(expected, rel=1e-5)


def test_few_eigenvalues_have_no_tail():
    layer = nn.Linear(80, 60).double()
    with torch.no_grad():
        layer.weight.copy_(torch.randn(60, 49).double() @ torch.randn(49, 80).double())
    found, monitor = recorded(layer, ["WeightAlpha"])
    assert found == {}
    why = "it has 49 eigenvalues that are not zero, and a tail takes 50"
    assert why in monitor.explain("", "WeightAlpha")
    _, monitor = recorded(nn.Linear(49, 80), ["WeightAlpha"])
    assert why in monitor.explain("", "WeightAlpha")


def test_zeros_have_no_stable_rank_and_nan_goes_through():
    layer = nn.Linear(60, 60)
    nn.init.zeros_(layer.weight)
    found, _ = recorded(layer, ["WeightSpectralNorm", "WeightStableRank"])
    assert found["WeightSpectralNorm"] == 0
    assert np.isnan(found["WeightStableRank"])
    nn.init.constant_(layer.weight, torch.nan)
    found, _ = recorded(layer, ALL)
    assert all(map(np.isnan, found.values()))
    assert len(found) == 4
