"""Statistics as monoids: any split of the rows merges to the whole, and scaling commutes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.passes.ir import Reduction
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.reductions import Count, MatrixSingular, Norm, Singular, Spectrum, SquareSum
from tests.reductions.stock import STOCK, flat, split


@pytest.mark.parametrize("reduction", STOCK, ids=str)
@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 6), st.lists(st.integers(1, 29), max_size=4), st.sampled_from([0.0, 1e3]))  # fmt: skip
def test_any_split_of_the_rows_merges_to_the_whole(reduction, seed, n, c, cuts, shift):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, c, generator=generator, dtype=torch.float64) + shift
    first, *rest = (reduction.measure(part) for part in split(x, cuts))
    for state in rest:
        first = reduction.merge(first, state)
    merged, whole = flat(reduction.finish(first)), flat(reduction.finish(reduction.measure(x)))
    assert torch.allclose(merged, whole, rtol=1e-8, atol=1e-8 * (1 + shift), equal_nan=True)


@pytest.mark.parametrize("reduction", STOCK, ids=str)
@pytest.mark.parametrize("specials", [(math.inf, math.nan), (math.nan, math.inf), (math.nan, 1.0)])
def test_a_nan_beside_an_inf_of_another_part_stays_one(reduction, specials):
    x = torch.randn(12, 3, dtype=torch.float64)
    x[0], x[8] = specials
    if isinstance(reduction, Spectrum | Singular | MatrixSingular):
        return  # torch's own decompositions raise on them, or make NaN of both
    merged = reduction.merge(reduction.measure(x[:6]), reduction.measure(x[6:]))
    found, whole = (flat(reduction.finish(s)) for s in (merged, reduction.measure(x)))
    assert torch.equal(found.isnan(), whole.isnan())
    assert torch.equal(found.isinf(), whole.isinf())


@pytest.mark.parametrize("reduction", STOCK, ids=str)
@pytest.mark.parametrize("factor", [0.5, 1 / 1024])
def test_a_scaled_state_is_that_of_the_scaled_tensor(reduction, factor):
    x = torch.randn(20, 4, dtype=torch.float64)
    scaled = reduction.scale(reduction.measure(x), factor)
    found, expected = reduction.finish(scaled), reduction.finish(reduction.measure(factor * x))
    assert torch.allclose(flat(found), flat(expected))


@pytest.mark.parametrize("reduction", STOCK, ids=str)
def test_a_state_keeps_no_memory_of_its_tensor(reduction):
    x = torch.randn(20, 4)
    before = [part.clone() for part in reduction.measure(x)]
    state = reduction.measure(x)
    x.fill_(77)
    assert all(torch.equal(a, b) for a, b in zip(before, state, strict=True))
    storage = x.untyped_storage().data_ptr()
    assert all(part.untyped_storage().data_ptr() != storage for part in state)
    assert isinstance(reduction, Reduction)


@pytest.mark.parametrize("reduction", STOCK, ids=str)
def test_an_empty_micro_batch_changes_nothing(reduction):
    x = torch.randn(12, 3)
    if isinstance(reduction, Singular | MatrixSingular):
        return  # a decomposition of no rows: nothing to fold, and nothing that folds it
    state = reduction.merge(reduction.measure(x), reduction.measure(x[:0]))
    expected = flat(reduction.finish(reduction.measure(x)))
    assert torch.allclose(flat(reduction.finish(state)), expected)
    state = reduction.merge(reduction.measure(x[:0]), reduction.measure(x))
    assert torch.allclose(flat(reduction.finish(state)), expected)


@pytest.mark.parametrize("reduction", [Norm(), SquareSum(), Count(), Spectrum(), Spectrum(feature_axis=1)], ids=str)  # fmt: skip
@pytest.mark.parametrize("special", [None, 0.0, math.inf, math.nan])
@settings(max_examples=25)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=2, max_size=4), st.sampled_from([1.0, 1e-30, 1e-18, 1e18, 1e30]))  # fmt: skip
def test_ways_that_take_less_time_find_the_same(reduction, special, seed, shape, scale):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=generator) * scale for _ in range(3)]
    if special is not None:
        tensors[1].fill_(special)
    each = [reduction.measure(x) for x in tensors]
    many = reduction.measure_many(tensors)
    together = [list(zip(*many, strict=True))]
    if hasattr(reduction, "measure_scalar"):
        together.append([reduction.measure_scalar(x) or reduction.measure(x) for x in tensors])
    for found in together:
        for state, own in zip(found, each, strict=True):
            value, expected = (flat(reduction.finish(in_tensors(s))) for s in (state, own))
            assert torch.allclose(value, expected, rtol=1e-5, atol=0, equal_nan=True)
