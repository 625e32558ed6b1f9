"""Each of the seed's quantities against a float64 computation on tensors captured here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from tests.quantities import reference
from tests.quantities.reference import (
    ConvLike,
    LinearLike,
    bench,
    condition,
    double,
    matrix,
    rank_size,
)
from tests.quantities.strategies import tensors

WITH_HALF = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def same(found, expected, rel=1e-5, floor=0.0):
    if np.isnan(expected):
        return math.isnan(found)
    return found == pytest.approx(expected, rel=rel, abs=floor)


@given(tensors(dtypes=WITH_HALF))
def test_norms(x):
    assert same(bench("InputSndNorm", x), np.linalg.norm(double(x)))
    g = x.flip(0)
    assert same(bench("OutputGradSndNorm", x, g), np.linalg.norm(double(g)))


@given(tensors(dtypes=WITH_HALF))
def test_mean_and_spread_of_all_elements(x):
    scale = np.abs(double(x)).max()
    assert same(bench("InputMean", x), double(x).mean(), floor=1e-6 * scale)
    spread = double(x).std(ddof=1) if x.numel() > 1 else np.nan
    assert same(bench("InputStd", x), spread, floor=1e-6 * scale)


@given(tensors())
def test_mean_and_spread_of_each_feature(x):
    rows, option = matrix(x), {"reduce": "feature"}
    scale = np.abs(rows).max()
    mean = bench(["InputMean", "linear(0, 0)", option], x)
    assert np.allclose(mean, rows.mean(0), rtol=1e-5, atol=1e-6 * scale)
    std = bench(["InputStd", "linear(0, 0)", option], x)
    if len(rows) == 1:
        assert torch.isnan(std).all()
    else:
        assert np.allclose(std, rows.std(0, ddof=1), rtol=1e-5, atol=1e-6 * scale)


@given(tensors(), st.sampled_from(["Input", "OutputGrad"]), st.booleans())
def test_the_largest_eigenvalue_and_the_stable_rank(x, side, centered):
    g = x if side == "OutputGrad" else None
    option = {"centered": centered}
    values = reference.spectrum(x, centered)
    noise = np.abs(matrix(x)).max() ** 2 * 1e-6
    found = bench([f"{side}CovMaxEig", "linear(0, 0)", option], x, g)
    assert same(found, values[0], rel=1e-4, floor=noise)
    found = bench([f"{side}CovStableRank", "linear(0, 0)", option], x, g)
    if np.isnan(values[0]):
        assert math.isnan(found)
    elif values[0] > 1e3 * noise:
        assert same(found, values.sum() / values[0], rel=1e-3)


INDEX = {"": lambda c: c - 1, "20": lambda c: int(0.2 * c), "50": lambda c: int(0.5 * c), "80": lambda c: int(0.8 * c)}  # fmt: skip


@settings(max_examples=150)
@given(tensors(), st.sampled_from(["Input", "OutputGrad"]), st.sampled_from(list(INDEX)))
def test_condition_numbers(x, side, which):
    values, rows = reference.spectrum(x), matrix(x)
    k = INDEX[which](len(values))
    found = bench(f"{side}CovCondition{which}", x, x if side == "OutputGrad" else None)
    if np.isnan(values).any():
        assert math.isnan(found)
        return
    eps = torch.finfo(x.dtype).eps
    offset = np.abs(rows.mean(0)).max() ** 2  # a large mean costs digits before any statistic
    zero = values[0] * rank_size(rows) * eps
    if values[k] <= 1e-3 * zero and values[0] > offset * 1e-6:
        assert found == math.inf
    elif values[k] > 1e3 * zero and values[k] > 1e3 * offset * eps:
        assert same(found, condition(x, k, eps), rel=1e-2)


@given(tensors(kinds=st.just("full")), st.sampled_from([0.0, 0.3, 0.99]))
def test_a_condition_number_at_any_share(x, p):
    values = reference.spectrum(x)
    assume(len(matrix(x)) > 3 * len(values) and values[-1] > 1e-3 * values[0])
    found = bench(["InputCovCondition", "linear(0, 0)", {"p": p}], x)
    assert same(found, condition(x, int(p * len(values))), rel=1e-4)


@given(tensors(kinds=st.just("full")))
def test_rescaling_the_data_does_not_change_a_condition_number(x):
    values = reference.spectrum(x)
    assume(not np.isnan(values).any() and values[0] > 0)
    zero = values[0] * rank_size(matrix(x)) * torch.finfo(x.dtype).eps
    assume(values[-1] > 1e3 * zero or values[-1] < 1e-3 * zero)
    found, scaled = bench("InputCovCondition", x), bench("InputCovCondition", x * 1e-4)
    assert same(scaled, found, rel=1e-2)


@pytest.mark.parametrize("shape", [(64, 16, 64, 64), (256, 8, 32, 32), (65536, 16)], ids=str)
def test_many_rows_do_not_make_an_ordinary_condition_number_infinite(shape):
    spread = torch.logspace(0, -1.3, shape[1])
    x = torch.randn(shape) * spread.reshape([-1] + [1] * (len(shape) - 2))
    found = bench("InputCovCondition", x)
    assert found == pytest.approx(condition(x, -1), rel=1e-3)
    assert 300 < found < 500


@pytest.mark.parametrize("c", [2, 4, 16, 64])
def test_a_feature_that_is_the_sum_of_others_is_found_among_many_rows(c):
    x = torch.randn(65536, c)
    x[:, -1] = x[:, :-1].sum(1)
    assert bench("InputCovCondition", x) == math.inf


def test_the_covariance_of_a_convolutions_input_is_that_of_its_channels():
    base = torch.randn(8, 1, 6, 6)
    x = torch.cat([base + 0.05 * torch.randn(8, 1, 6, 6) for _ in range(4)], dim=1)
    rows = x.permute(0, 2, 3, 1).reshape(-1, 4)
    truth = torch.linalg.eigvalsh(torch.cov(rows.T.double())).flip(0)
    found = bench("ForwardInputEigOfCov", x, module=ConvLike(4, 4, 1))
    assert torch.allclose(found.double(), truth, rtol=1e-4, atol=1e-6 * truth[0].item())
    assert bench("InputCovCondition", x, module=ConvLike(4, 4, 1)) > 1000


@pytest.mark.parametrize("shape", [(30, 40), (3, 5, 40), (2, 40, 3, 3)], ids=str)
def test_with_fewer_rows_than_features_the_gram_side_gives_the_same_spectrum(shape):
    x = torch.randn(shape)
    found = bench("ForwardInputEigOfCov", x)
    truth = reference.spectrum(x)
    assert len(found) == 40
    assert np.allclose(found, truth, rtol=1e-4, atol=1e-4 * truth[0])
    assert (found[len(matrix(x)) - 1 :] <= 1e-5 * found[0]).all()


@given(tensors())
def test_rank_me(x):
    expected = reference.rank_me(x)
    g = x if x.is_floating_point() else None
    found = bench("RankMe", x, g)
    assert same(found, expected, rel=1e-3)


def test_rank_me_records_the_number_of_rows_beside_it():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 5)), {"0": ["RankMe"]})
    model(torch.randn(7, 3))
    model.monitor.track(0)
    assert model.monitor.get_output()["0"]["RankMe.N"] == {0: 7}


@given(tensors(), st.sampled_from([0.0, -2.0, 0.5]))
def test_dead_neurons(x, threshold):
    expected = (matrix(x) <= threshold).all(0).mean()
    for name in ("LinearDeadNeuronNum", "DeadNeuronRatio"):
        found = bench([name, "linear(0, 0)", {"threshold": threshold}], x)
        assert found == pytest.approx(expected, abs=1e-6)
    assert bench("LinearDeadNeuronNum", x) == pytest.approx(
        (matrix(x) <= -2).all(0).mean(), abs=1e-6
    )
    assert bench("DeadNeuronRatio", x) == pytest.approx((matrix(x) <= 0).all(0).mean(), abs=1e-6)


SCALARS = [
    "InputSndNorm", "InputMean", "InputStd", "InputCovMaxEig", "InputCovStableRank",
    "InputCovCondition", "InputCovCondition50", "RankMe", "LinearDeadNeuronNum", "DeadNeuronRatio",
]  # fmt: skip


@pytest.mark.parametrize("quantity", SCALARS)
@pytest.mark.parametrize("shape", [(20, 4), (3, 9), (2, 3, 4, 4)], ids=str)
def test_nan_in_gives_nan_out(quantity, shape):
    x = torch.randn(shape)
    x.view(-1)[5] = math.nan
    assert math.isnan(bench(quantity, x))


@pytest.mark.parametrize("quantity", SCALARS[:8])
@pytest.mark.parametrize("shape", [(20, 4), (3, 9), (2, 3, 4, 4)], ids=str)
def test_inf_in_gives_nan_or_inf_out(quantity, shape):
    x = torch.randn(shape)
    x.view(-1)[5] = math.inf
    assert not math.isfinite(bench(quantity, x))


def test_a_constant_input_has_no_variance_and_no_stable_rank():
    x = torch.full((10, 3), 0.1)
    assert bench("InputCovMaxEig", x) == 0
    assert math.isnan(bench("InputCovStableRank", x))
    assert bench("InputCovCondition", x) == math.inf
    assert math.isnan(bench("RankMe", torch.zeros(10, 3)))


def test_one_feature_has_its_variance_as_eigenvalue():
    x = torch.randn(20, 1)
    assert bench("InputCovMaxEig", x) == pytest.approx(x.var().item(), rel=1e-5)
    assert bench("InputCovCondition", x) == pytest.approx(1)


def test_integers_and_booleans_are_read_as_float32():
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Embedding(10, 4)), {"0": ["InputSndNorm", "InputMean"]}
    )
    ids = torch.tensor([[1, 2], [3, 9]])
    model(ids)
    model.monitor.track(0)
    output = model.monitor.get_output()["0"]
    assert output["InputSndNorm"][0] == pytest.approx(ids.double().norm().item())
    assert output["InputMean"][0] == pytest.approx(3.75)


@pytest.mark.parametrize("quantity", ["InputSndNorm", "InputStd", "RankMe", "InputCovMaxEig"])
def test_complex_inputs_are_read_by_their_absolute_value(quantity):
    x = torch.randn(12, 3, dtype=torch.complex64)
    assert bench(quantity, x) == pytest.approx(bench(quantity, x.abs()), rel=1e-5)


def test_weights_and_their_gradients():
    torch.manual_seed(3)
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(4, 3)),
        {
            "0": [
                "WeightNorm",
                "WeightGradNorm",
                ["WeightNorm", "linear(0, 0)", {"param": "bias"}],
                ["WeightNorm", "linear(0, 0)", {"param": "all"}],
            ]
        },
    )
    model(torch.randn(5, 4)).square().sum().backward()
    model.monitor.track(0)
    layer, output = model[0], model.monitor.get_output()["0"]
    norm = lambda *ts: math.sqrt(sum(t.detach().double().square().sum().item() for t in ts))  # noqa: E731
    assert output["WeightNorm"][0] == pytest.approx(norm(layer.weight), rel=1e-6)
    assert output["WeightGradNorm"][0] == pytest.approx(norm(layer.weight.grad), rel=1e-6)
    assert output["WeightNorm(param='bias')"][0] == pytest.approx(norm(layer.bias), rel=1e-6)
    both = norm(layer.weight, layer.bias)
    assert output["WeightNorm(param='all')"][0] == pytest.approx(both, rel=1e-6)


def test_weight_param_jump_counts_the_signs_that_flipped_since_the_last_due_step():
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(4, 3)), {"0": [["WeightParamJump", "linear(2, 0)"]]}
    )
    weights, expected = [], {}
    for step in range(7):
        with torch.no_grad():
            model[0].weight.normal_()
        if step % 2 == 0:
            weights.append(model[0].weight.detach().clone())
            expected[step] = int((weights[-1] * weights[-2] < 0).sum()) if len(weights) > 1 else 0
        model.monitor.track(step)
    assert model.monitor.get_output()["0"]["WeightParamJump"] == expected
    assert sum(expected.values()) > 0


@pytest.mark.parametrize("variant", ["norm", "paper"])
@pytest.mark.parametrize("shape", [(8, 5), (8, 5, 3), (4, 5, 3, 2), (8, 3)], ids=str)
def test_the_discrepancy_of_batchnorm_is_that_of_the_windows_batches(shape, variant):
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
    option = {"variant": variant}
    cfg = {"0": [["MeanTID", "linear(3, 2)", option], ["VarTID", "linear(3, 2)", option]]}
    model = taiyi_fx.instrument(nn.Sequential(kinds[len(shape)](shape[1])), cfg)
    batches, expected = [], {}
    for step in range(7):
        x = torch.randn(shape) * (1 + step) + step
        batches.append(np.moveaxis(double(x), 1, -1).reshape(-1, shape[1]))
        model(x)
        model.monitor.track(step)
        if step % 3 == 2:
            expected[step] = reference.tid(
                batches, model[0].running_mean, model[0].running_var, variant
            )
            batches = []
    output = model.monitor.get_output()["0"]
    assert set(output["MeanTID"]) == set(output["VarTID"]) == {2, 5}
    for step, (mean, var) in expected.items():
        assert output["MeanTID"][step] == pytest.approx(mean, rel=1e-4)
        assert output["VarTID"][step] == pytest.approx(var, rel=1e-4)


def test_raw_access_gives_the_tensors_themselves():
    torch.manual_seed(5)
    names = ["ForwardInput", "ForwardOutput", "BackwardInput", "BackwardOutput"]
    layer = nn.Linear(4, 3)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": names})
    x = torch.randn(5, 4, requires_grad=True)
    y = model(x)
    y.square().sum().backward()
    model.monitor.track(0)
    output = model.monitor.get_output()["0"]
    for name, tensor in zip(names, (x, y, x.grad, 2 * y), strict=True):
        assert torch.equal(output[name][0], tensor), name
        assert not output[name][0].requires_grad


def test_the_input_gradient_is_that_of_this_calls_use_alone():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return self.a(x) + 3 * self.b(x)

    model = taiyi_fx.instrument(Twice(), {"a": ["BackwardInput"], "b": ["BackwardInput"]})
    x = torch.randn(4, 3, requires_grad=True)
    model(x).sum().backward()
    model.monitor.track(0)
    output = model.monitor.get_output()
    a = model.a.weight.sum(0).expand(4, 3)
    b = 3 * model.b.weight.sum(0).expand(4, 3)
    assert torch.allclose(output["a"]["BackwardInput"][0], a)
    assert torch.allclose(output["b"]["BackwardInput"][0], b)
    assert torch.allclose(x.grad, a + b)


@given(st.integers(1, 60))
def test_raw_access_keeps_at_most_the_elements_asked_for(bound):
    x = torch.randn(6, 5)
    found = bench(["ForwardInput", "linear(0, 0)", {"max_elements": bound}], x, batches=2)
    expected = x[: bound // 5] if bound >= 5 else x.reshape(-1)[:bound]
    assert torch.equal(found, expected if bound < 30 else x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_raw_access_keeps_the_type(dtype):
    x = torch.arange(12).reshape(4, 3).to(dtype)
    found = bench("ForwardInput", x, module=LinearLike(1, 1))
    assert found.dtype == dtype
    assert torch.equal(found, x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_feature_axis_is_an_option(axis):
    x = torch.randn(4, 5, 6) * torch.rand(1, 1, 6)
    found = bench(["ForwardInputEigOfCov", "linear(0, 0)", {"feature_axis": axis}], x)
    rows = x.movedim(axis, -1).reshape(-1, x.shape[axis]).double()
    truth = torch.linalg.eigvalsh(torch.cov(rows.T)).flip(0)
    assert torch.allclose(found.double(), truth, rtol=1e-4, atol=1e-5)


class TwoInputs(nn.Module):
    def forward(self, x, other=None):
        return x, {"far": x + other}


class Calling(nn.Module):
    def __init__(self):
        super().__init__()
        self.two = TwoInputs()

    def forward(self, x):
        first, rest = self.two(x, other=2 * x)
        return first + rest["far"]


@pytest.mark.parametrize(
    ("quantity", "tensor", "factor"),
    [("InputSndNorm", None, 1), ("InputSndNorm", 1, 2), ("InputSndNorm", "other", 2),
     ("InputSndNorm", "x", 1), ("ForwardOutput", 1, 3), ("ForwardOutput", 0, 1)],
)  # fmt: skip
def test_an_option_picks_another_tensor(quantity, tensor, factor):
    entry = [quantity, "linear(0, 0)", {"tensor": tensor}]
    model = taiyi_fx.instrument(Calling(), {"two": [entry]})
    x = torch.randn(3, 4)
    model(x)
    model.monitor.track(0)
    value = model.monitor.get_output()["two"][quantity][0]
    found = value.norm().item() if torch.is_tensor(value) else value
    assert found == pytest.approx(factor * x.norm().item(), rel=1e-5)
