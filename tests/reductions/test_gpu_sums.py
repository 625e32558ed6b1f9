"""What a GPU adds up is computed here on a CPU in the same way: the numbers are those of float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.reductions import AbsMax, NonFinites, Norm, Summary, elements, summary, sums
from taiyi_fx.testing import tensors

SHAPES = st.sampled_from([(1,), (3, 5), (2, 1024), (7, 300), (2, 3, 5, 171)])
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
drawn = tensors(SHAPES, dtypes=DTYPES, scales=(1.0, 1e3, 1e-3))


@pytest.fixture(autouse=True)
def as_on_gpu(monkeypatch):
    """All is taken for a tensor on a GPU, and nothing for one of the CPU that has a way of its own."""
    monkeypatch.setattr(sums, "_COUNTED", 2000)
    for module in (sums, elements, summary):
        monkeypatch.setattr(module, "is_on_gpu", lambda x: x.dtype in DTYPES and x.numel() > 0)
    monkeypatch.setattr(sums, "norm_in_python", lambda x: None)


def counts(x):
    return NonFinites().finish(NonFinites().measure(x))


def near(found, expected):
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=1e-6, atol=1e-30, equal_nan=True, check_device=False
    )


@given(drawn)
def test_norms(recipe):
    x = recipe.make()
    expected = x.double().norm()
    near(Norm().measure(x)[0], expected)
    near(Norm().measure_many([x, x])[0], torch.stack([expected] * 2))


@given(drawn)
def test_sums_and_counts(recipe):
    x = recipe.make()
    rows, rest = sums.in_rows(x)
    assert rows.numel() + rest.numel() == x.numel()
    allowed = 1e-6 * float(x.double().abs().nan_to_num(0, 0, 0).sum())
    found, expected = sums.sum_of(x), x.double().sum()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=allowed, equal_nan=True)
    assert sums.count_nonzero(x) == (x != 0).sum()
    nan, inf = counts(x)
    assert (nan, inf) == (x.isnan().sum(), x.isinf().sum())


@given(drawn)
def test_magnitudes(recipe):
    x = recipe.make()
    near(AbsMax().measure(x)[0], x.double().abs().amax())
    n, total, size, most, bad = Summary().measure(x)
    kept = x.double()[x.isfinite()]
    assert (n, bad) == (kept.numel(), x.numel() - kept.numel())
    near(size, kept.norm())
    near(most, kept.abs().amax() if kept.numel() else torch.zeros(()))
    allowed = 1e-6 * float(kept.abs().sum())
    torch.testing.assert_close(total, kept.sum(), rtol=1e-6, atol=allowed)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("at", [0, 1500, 2049])
def test_what_is_not_finite_is_counted_wherever_it_stands(value, at):
    x = torch.randn(2050, dtype=torch.bfloat16)
    x[at] = value
    assert [int(n) for n in counts(x)] == [value != value, value == value]


def test_rows_are_those_of_memory():
    x = torch.randn(2, 8, 16, 16).to(memory_format=torch.channels_last)
    rows, rest = sums.in_rows(x)
    assert (rows.shape, len(rest)) == ((4, 1024), 0)
    assert rows.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("power", [-30, 30])
def test_squares_leave_no_range(power):
    x = torch.full((3000,), 10.0**power)
    near(Norm().measure(x)[0], x.double().norm())
