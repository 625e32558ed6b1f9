"""Counts of NaN and Inf: none is missed and none invented."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.reductions import NonFinites
from tests.reductions.stock import SPECIALS, large


def counts(x):
    return NonFinites().finish(NonFinites().measure(x))


@given(st.integers(0, 10_000), SPECIALS, st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))  # fmt: skip
def test_no_nan_and_no_inf_is_missed(seed, specials, dtype):
    x = large(seed, specials, shift=1.0).to(dtype)
    nan, inf = counts(x)
    assert (nan, inf) == (x.isnan().sum(), x.isinf().sum())
    assert (NonFinites().measure_scalar(x) is None) >= bool(nan or inf)


@given(st.integers(0, 10_000), SPECIALS, st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64]))  # fmt: skip
def test_no_more_are_missed_in_compiled_code(seed, specials, dtype):
    x = large(seed, specials, shift=1.0)
    x = x.to(dtype) if dtype.is_floating_point else x.nan_to_num(0, 0, 0).to(dtype)
    with for_compiled_code():
        nan, inf = counts(x)
    assert (nan, inf) == (x.isnan().sum(), x.isinf().sum())


def test_of_a_sparse_gradient_what_is_stored_is_counted():
    stored = torch.tensor([[1.0, torch.nan], [torch.inf, 2.0]])
    x = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), stored, (4, 2), check_invariants=True)
    assert counts(x) == (1, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_sum_that_overflows_makes_nothing_infinite(dtype):
    x = torch.full((100_000,), torch.finfo(dtype).max, dtype=dtype)
    assert x.sum().isinf()
    assert counts(x) == (0, 0)
    x[7], x[8], x[9] = math.inf, -math.inf, math.nan
    assert counts(x) == (1, 2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.complex64, torch.float8_e5m2])
def test_types_that_are_not_summed_are_counted(dtype):
    x = torch.ones(8).to(dtype)
    assert NonFinites().measure_scalar(x) is None
    assert counts(x) == (0, 0)
