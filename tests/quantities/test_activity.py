"""Norms of samples, root mean squares, activity and correlation, against float64."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn

import taiyi_fx
from tests.quantities.reference import LinearLike, bench, double, matrix
from tests.quantities.strategies import tensors

WITH_HALF = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
ALWAYS = "linear(0, 0)"


def same(found, expected, rel=1e-5):
    if np.isnan(expected):
        return math.isnan(found)
    return found == pytest.approx(expected, rel=rel, abs=0)


@given(tensors(dtypes=WITH_HALF))
def test_root_mean_squares_and_largest_values(x):
    rms, g = np.sqrt(np.mean(double(x) ** 2)), x.flip(0)
    assert same(bench("InputRMS", x), rms)
    assert same(bench("OutputRMS", x), rms)
    assert same(bench("OutputGradRMS", x, g), rms)
    assert same(bench("OutputGradNorm", x, g), np.linalg.norm(double(x)))
    assert bench("OutputAbsMax", x) == np.abs(double(x)).max()
    assert bench("OutputGradAbsMax", x, g) == np.abs(double(x)).max()


@given(tensors(dtypes=WITH_HALF))
def test_the_mean_norm_of_the_samples(x):
    samples = double(x).reshape(len(x), -1)
    norms = np.linalg.norm(samples, axis=1)
    assert same(bench("OutputNorm", x), norms.mean())
    found = bench(["OutputNorm", ALWAYS, {"normalize": True}], x)
    assert same(found, norms.mean() / np.sqrt(samples.shape[1]))


@given(tensors(dtypes=(torch.float32, torch.float64)))
def test_activity_is_counted_exactly(x):
    active = np.abs(matrix(x)) > 1e-8
    rates = active.mean(0)
    assert same(bench("OutputActivationRate", x), rates.mean())
    each = bench(["OutputActivationRate", ALWAYS, {"reduce": "feature"}], x)
    assert np.allclose(double(each), rates, rtol=1e-6, atol=0)
    assert bench("OutputDeathRate", x) == pytest.approx((~active.any(0)).mean(), rel=1e-6)


def test_what_is_active_is_an_option():
    x = torch.tensor([[0.5, 0.0], [0.1, 0.0]])
    assert bench(["OutputActivationRate", ALWAYS, {"eps": 0.2}], x) == 0.25
    assert bench(["OutputDeathRate", ALWAYS, {"eps": 0.6}], x) == 1.0
    with pytest.raises(taiyi_fx.ConfigError, match="eps must be a number of at least 0"):
        bench(["OutputDeathRate", ALWAYS, {"eps": -1.0}], x)


@pytest.mark.parametrize("name", ["OutputNorm", "OutputRMS", "OutputAbsMax", "OutputDeathRate"])
def test_nan_in_gives_nan_out(name):
    x = torch.ones(3, 2)
    x[1, 1] = math.nan
    assert math.isnan(bench(name, x))


@given(tensors())
def test_micro_batches_are_one_step(x):
    if len(x) % 2:
        x = torch.cat([x, x])
    for name in ("OutputNorm", "OutputRMS", "OutputAbsMax", "OutputActivationRate"):
        assert same(bench(name, x, batches=2), bench(name, x))


def correlations(gradients, schedule=ALWAYS):
    entry = ["OutputGradCorrelation", schedule]
    model = taiyi_fx.instrument(nn.Sequential(LinearLike(1, 1)), {"0": [entry]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step, g in enumerate(gradients):
            model(torch.zeros_like(g).requires_grad_()).backward(g)
            model.monitor.track(step)
    return model.monitor.get_output().get("0", {}).get("OutputGradCorrelation", {})


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-30, 1e15])
def test_the_correlation_of_gradients_knows_no_scale(size):
    torch.manual_seed(0)
    gradients = [torch.randn(8, 4) * size for _ in range(4)]
    found = correlations(gradients)
    flat = [double(g).ravel() / size for g in gradients]
    expected = {
        i: a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        for i, (a, b) in enumerate(itertools.pairwise(flat), start=1)
    }
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert correlations([gradients[0]] * 2) == {1: pytest.approx(1.0)}


def test_a_correlation_has_no_record_without_one_before_or_of_another_shape():
    a, b = torch.randn(4, 2), torch.randn(3, 2)
    assert list(correlations([a, a, b, b])) == [1, 3]
    assert list(correlations([a] * 5, schedule="linear(2, 0)")) == [2, 4]
