"""Products of matrices keep the digits of float32 where torch may drop them."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.reductions import products
from taiyi_fx.reductions.products import is_shortened, product_of


@pytest.fixture(params=["highest", "high", "medium"])
def precision(request):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


def rounded(x):
    """As TF32 has a number of float32: with 10 bits of its fraction."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + (1 << 12)) & -(1 << 13)).view(torch.float32)


def error(found, a, b):
    exact = a.double() @ b.double()
    return float((found - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
@pytest.mark.parametrize("shape", [(300, 40), (3, 200, 7)])
def test_the_parts_have_all_digits_where_a_product_has_those_of_tf32(shape, scale, monkeypatch):
    x = scale * torch.randn(shape)
    parts = products._parts(x)
    assert torch.equal(parts[0] + parts[1], x)
    assert torch.equal(rounded(parts[0]), parts[0])

    class Short(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            is_product = getattr(func, "__name__", "") in ("__matmul__", "matmul")
            return func(*(map(rounded, args) if is_product else args), **(kwargs or {}))

    monkeypatch.setattr(products, "is_shortened", lambda device: True)
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda self: False))
    with Short():
        coarse, found = x.mT @ x, product_of(x.mT, x)
    assert error(coarse, x.mT, x) > 1e-5
    assert error(found, x.mT, x) < 2**-20  # 21 bits, where float32 has 24 and TF32 has 11


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_so(number):
    x = torch.ones(4, 3)
    x[1, 2] = number
    kept, rest = products._parts(x)
    assert not (kept + rest)[1, 2].isfinite()
    assert torch.equal((kept + rest)[:, :2], x[:, :2])


def test_the_setting_is_seen_and_left_as_it_is(precision):
    assert is_shortened("cuda") == is_shortened("cpu") == (precision != "highest")
    assert not is_shortened("mps")
    x = torch.randn(50, 6)
    assert error(product_of(x.mT, x), x.mT, x) < 1e-6
    assert torch.get_float32_matmul_precision() == precision


def test_other_types_are_multiplied_as_they_are(precision):
    x = torch.randn(50, 6, dtype=torch.float64)
    assert torch.equal(product_of(x.mT, x), x.mT @ x)
    z = torch.randn(5, 6, dtype=torch.complex64)
    assert torch.equal(product_of(z, z.mH), z @ z.mH)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_the_setting_changes_no_number(precision, backend):
    cfg = {"0": ["InputCovCondition", "FisherCondition", "PerSampleGradNorm"]}
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 5)), cfg)
    called = torch.compile(model, backend=backend, fullgraph=True) if backend else model
    x = torch.randn(64, 6)
    called(x).square().sum().backward()
    model.monitor.track(0)
    eigenvalues = torch.linalg.eigvalsh(x.double().T.cov())
    found = model.monitor.get_output()["0"]["InputCovCondition"][0]
    assert found == pytest.approx(float(eigenvalues[-1] / eigenvalues[0]), rel=1e-5)
