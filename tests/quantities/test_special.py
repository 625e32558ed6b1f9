"""What the checks of every quantity don't reach: many rows, other types, options by name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.testing import check_quantity, modules, tensors
from tests.quantities.proofs import PROOFS
from tests.quantities.stock.recorded import bench

ALWAYS = "linear(0, 0)"
MILD = tensors(kinds=("full", "sparse"), scales=(1.0,))


def test_booleans_are_read_as_float32():
    found = bench("InputSndNorm", torch.tensor([[True, False], [True, True]]))
    assert found == pytest.approx(math.sqrt(3), rel=1e-6)


@pytest.mark.parametrize("quantity", ["InputSndNorm", "InputStd", "RankMe", "InputCovMaxEig"])
def test_complex_inputs_are_read_by_their_absolute_value(quantity):
    x = torch.randn(12, 3, dtype=torch.complex64)
    assert bench(quantity, x) == pytest.approx(bench(quantity, x.abs()), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_raw_access_keeps_the_type(dtype):
    x = torch.arange(12).reshape(4, 3).to(dtype)
    found = bench("ForwardInput", x)
    assert found.dtype == dtype
    assert torch.equal(found, x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_feature_axis_is_an_option(axis):
    x = torch.randn(4, 5, 6) * torch.rand(1, 1, 6)
    found = bench(["ForwardInputEigOfCov", ALWAYS, {"feature_axis": axis}], x)
    rows = x.movedim(axis, -1).reshape(-1, x.shape[axis]).double()
    truth = torch.linalg.eigvalsh(torch.cov(rows.T)).flip(0)
    assert torch.allclose(found.double(), truth, rtol=1e-4, atol=1e-5)


def test_an_option_of_a_reduction_is_checked_at_the_door():
    with pytest.raises(taiyi_fx.ConfigError, match="eps must be a number of at least 0"):
        bench(["OutputDeathRate", ALWAYS, {"eps": -1.0}], torch.ones(2, 2))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("InputSndNorm", ()),
        ("OutputAbsMax", ()),
        ("OutputGradAbsMax", ()),
        ("WeightGradNorm", (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding)),
        ("BackwardInput", (nn.Linear, nn.modules.conv._ConvNd, nn.LayerNorm)),
        ("MeanTID", (nn.modules.batchnorm._BatchNorm,)),
        ("VarTID", (nn.modules.batchnorm._BatchNorm,)),
    ],
)
def test_a_quantity_is_the_same_of_torchs_own_modules(name, kinds):
    proof = PROOFS[name]
    check_quantity(
        name, proof.reference, rel=1e-3, tensors=MILD, modules=modules(*kinds), max_examples=20
    )


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
    model = taiyi_fx.instrument(Calling(), {"two": [[quantity, ALWAYS, {"tensor": tensor}]]})
    x = torch.randn(3, 4)
    model(x)
    model.monitor.track(0)
    value = model.monitor.get_output()["two"][quantity][0]
    found = value.norm().item() if torch.is_tensor(value) else value
    assert found == pytest.approx(factor * x.norm().item(), rel=1e-5)


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
