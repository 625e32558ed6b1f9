"""Facts about tensors."""

import math

import pytest
import torch

from taiyi_fx.recorder.replay.facts import facts_of, has_nan, has_non_finite

NAN, INF = math.nan, math.inf


def test_counts_and_numbers_are_of_what_they_say():
    found = facts_of(torch.tensor([[1.0, NAN, 3.0], [-INF, INF, 2.0]]))
    assert (found.shape, found.dtype, found.device) == ((2, 3), "float32", "cpu")
    assert (found.nan, found.inf) == (1, 2)
    assert (found.smallest, found.largest, found.mean) == (1.0, 3.0, 2.0)
    assert not found.is_finite
    assert str(found) == "float32 2×3: 1 NaN, 2 Inf, 1 to 3"


def test_what_has_no_finite_element_has_no_numbers():
    found = facts_of(torch.full((2,), NAN, dtype=torch.float16))
    assert (found.smallest, found.largest, found.mean) == (None, None, None)
    assert str(found) == "float16 2: 2 NaN"
    assert facts_of(torch.empty(0)).is_finite


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
     torch.float8_e5m2],
)  # fmt: skip
def test_each_type_that_has_nan_is_looked_at(dtype):
    x = torch.ones(3, dtype=torch.complex64 if dtype.is_complex else torch.float32)
    assert not has_non_finite(x.to(dtype))
    x[1] = NAN
    assert has_non_finite(x.to(dtype))
    assert has_nan(x.to(dtype))
    x[1] = INF
    assert has_non_finite(x.to(dtype))
    assert not has_nan(x.to(dtype))


def test_integers_and_what_is_empty_are_finite():
    for x in (torch.arange(3), torch.ones(2, dtype=torch.bool), torch.empty(0)):
        assert not has_non_finite(x)
        assert not has_nan(x)
        assert facts_of(x).is_finite


def test_large_finite_numbers_are_finite():
    assert not has_non_finite(torch.full((4,), torch.finfo(torch.float32).max))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_finite_has_the_numbers_that_it_has_beside_a_nan(dtype):
    torch.manual_seed(0)
    x = (torch.randn(40, 30) + 0.1).to(dtype).t()
    found, beside = facts_of(x), facts_of(torch.cat([x, torch.full((1, 40), NAN, dtype=dtype)]))
    assert (found.nan, found.inf) == (0, 0)
    assert (found.smallest, found.largest) == (beside.smallest, beside.largest)
    assert found.mean == pytest.approx(float(x.double().mean()), rel=1e-12)
    assert beside.mean == pytest.approx(found.mean, rel=1e-12)
