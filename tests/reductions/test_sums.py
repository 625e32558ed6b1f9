"""Sums that keep their digits on tensors of any size."""

import pytest
import torch

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.reductions import Moments, Norm
from taiyi_fx.reductions.sums import norms

SHAPES = [(3, 5), (300, 300), (4, 64, 56, 56), (2, 2048, 7, 7), (3, 50_257), (20_000_000,)]


@pytest.mark.parametrize("n", [3_000, 100_000, 20_000_000])
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e6])
def test_norms_and_moments_keep_their_digits_on_tensors_of_any_size(n, shift):
    """Adding the squares of 2e7 numbers up in float32 is off by a thousandth."""
    x = torch.randn(n) + shift
    truth = x.double()
    assert Norm().measure(x)[0].item() == pytest.approx(truth.norm().item(), rel=1e-6)
    found = Moments().finish(Moments().measure(x))
    assert found.std.item() == pytest.approx(truth.std().item(), rel=1e-6)
    assert found.mean.item() == pytest.approx(truth.mean().item(), rel=1e-6, abs=1e-6)


def compiled_norm(x):
    """The norm as compiled code takes it."""
    with for_compiled_code():
        return Norm().measure(x)[0].item()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e6])
def test_norms_keep_their_digits_in_compiled_code(shape, shift):
    x = torch.randn(shape) + shift
    assert compiled_norm(x) == pytest.approx(x.double().norm().item(), rel=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-43, 1e-38, 1e-30, 1e-20, 1.0, 1e18, 1e25, 1e38])
def test_norms_of_any_size_are_in_range_in_compiled_code(size):
    x = torch.rand(20, 5000) * size
    assert compiled_norm(x) == pytest.approx(x.double().norm().item(), rel=1e-12)


def test_rows_of_all_sizes_make_one_norm_in_compiled_code():
    x = torch.rand(9, 5000) * torch.logspace(-40, 38, 9)[:, None]
    for rows in (x, x[:5], x[2:4], x[:, :2500].contiguous(), x.flip(1)):
        assert compiled_norm(rows) == pytest.approx(rows.double().norm().item(), rel=1e-6)


@pytest.mark.parametrize("broken", [torch.inf, -torch.inf, torch.nan])
def test_a_norm_of_what_is_not_finite_is_not_finite_in_compiled_code(broken):
    x = torch.rand(20, 5000)
    x[3, 7] = broken
    assert compiled_norm(x) == pytest.approx(x.norm().item(), nan_ok=True)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-60, 1e60, 1e160, 1e300])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_norms_of_float64_hold_at_any_scale(scale, is_compiled):
    x = torch.randn(40, 3, dtype=torch.float64)
    truth = x.norm().item()
    if is_compiled:
        with for_compiled_code():
            found = Norm().measure(x * scale)[0]
    else:
        found = Norm().measure(x * scale)[0]
    together = norms([x * scale, x * 0])
    assert found.item() == pytest.approx(truth * scale, rel=1e-12, abs=0)
    assert [float(n) for n in together] == [pytest.approx(truth * scale, rel=1e-12, abs=0), 0.0]
    assert Norm().measure(torch.full((2,), torch.inf, dtype=torch.float64))[0] == torch.inf
    assert Norm().measure(torch.full((2,), torch.nan, dtype=torch.float64))[0].isnan()
