"""Statistics as monoids: any split of the rows merges to the whole, and scaling commutes."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.passes.ir import Reduction
from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.reductions import (
    AbsMax,
    Activity,
    Count,
    FeatureMax,
    FourthMoment,
    Histogram,
    MatrixSingular,
    Moments,
    NonFinites,
    Norm,
    OutOfRange,
    Quantiles,
    Raw,
    SampleNorms,
    Sign,
    Singular,
    Spectrum,
    SpectrumValue,
    SquareSum,
    as_matrix,
)

STOCK = [
    Norm(), SquareSum(), Count(), Moments(), Moments(reduce="feature"), Spectrum(),
    Spectrum(centered=False), Singular(), FeatureMax(), Raw(), Raw(max_elements=7), Sign(),
    AbsMax(), SampleNorms(), SampleNorms(normalize=True), Activity(eps=0.0), FourthMoment(),
    NonFinites(), Histogram(), OutOfRange(), OutOfRange(format="bfloat16"), Quantiles(q=(0.1, 0.5)),
    Quantiles(q=(0.1, 0.5), exact=True), MatrixSingular(),
]  # fmt: skip


def flat(value):
    if isinstance(value, SpectrumValue):
        value = (value.eigenvalues, value.trace, value.square_sum, value.n)
    parts = value if isinstance(value, tuple) else (value,)
    parts = [part for part in parts if torch.is_tensor(part)]
    return torch.cat([part.double().reshape(-1) for part in parts])


def split(x, cuts):
    edges = sorted({0, len(x), *(c % len(x) for c in cuts)})
    return [x[a:b] for a, b in itertools.pairwise(edges)]


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


def test_half_precision_is_reduced_in_a_wider_type():
    x = torch.full((4096,), 300.0, dtype=torch.float16)  # its squares overflow half precision
    assert Norm().measure(x)[0] == 300 * 64
    assert Moments().measure(x)[1] == 300
    assert Moments().measure(x)[1].dtype == torch.float64


def test_a_mean_far_above_the_spread_costs_no_digits():
    x = torch.randn(1000, 3, dtype=torch.float64) + 1e6
    truth = torch.linalg.eigvalsh(torch.cov(x.T)).flip(0)
    x32 = x.float()
    quantised = torch.linalg.eigvalsh(torch.cov(x32.double().T)).flip(0)
    parts = [Spectrum().measure(part) for part in x32.split(100)]
    state = parts[0]
    for part in parts[1:]:
        state = Spectrum().merge(state, part)
    found = Spectrum().finish(state).eigenvalues.double()
    assert torch.allclose(found, quantised, rtol=1e-2)
    assert torch.allclose(quantised, truth, rtol=1e-2)


@pytest.mark.parametrize(("shape", "axis", "rows"), [
    ((), "auto", (1, 1)), ((5,), "auto", (1, 5)), ((2, 3, 4), "auto", (6, 4)),
    ((2, 3, 4, 5), "auto", (40, 3)), ((2, 3, 4, 5), -1, (24, 5)), ((2, 3, 4), 1, (8, 3)),
])  # fmt: skip
def test_a_tensor_as_rows_by_features(shape, axis, rows):
    assert as_matrix(torch.zeros(shape), axis).shape == rows


def test_rows_are_those_of_the_moved_axis_and_not_a_reinterpretation():
    x = torch.arange(24).reshape(2, 3, 4)
    assert torch.equal(as_matrix(x, 1)[:, 2], x[:, 2].reshape(-1))


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


def test_features_of_very_different_size_keep_their_own_spread():
    sizes = torch.logspace(-30, 15, 10)
    x = torch.randn(2000, 10) * sizes
    found = Moments(reduce="feature").finish(Moments(reduce="feature").measure(x))
    assert torch.allclose(found.std, x.double().std(dim=0), rtol=1e-5)


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


@pytest.mark.parametrize("rows", [5, 200])
@pytest.mark.parametrize("centered", [True, False])
def test_no_rows_add_nothing_to_a_spectrum(rows, centered):
    reduction = Spectrum(centered=centered)
    some, none = reduction.measure(torch.randn(rows, 130)), reduction.measure(torch.randn(0, 130))
    expected = reduction.finish(some).eigenvalues
    for state in (reduction.merge(some, none), reduction.merge(none, some)):
        assert torch.equal(reduction.finish(state).eigenvalues, expected)


# What is special comes in the first piece of a large tensor, in the last, and in none.
SPECIAL = (0.0, -0.0, 1e-40, -1e-44, math.inf, -math.inf, math.nan, 65504.0, 65520.0, -448.0, 3e38)
LARGE = 2**16 + 77
ALL_BITS = st.integers(-(2**31), 2**31 - 1)


def large(seed, specials, *, shift=0.0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(LARGE, generator=generator) * scale + shift
    for place, special in specials:
        x[place] = special
    return x


SPECIALS = st.lists(
    st.tuples(
        st.integers(-LARGE, LARGE - 1),
        st.sampled_from(SPECIAL)
        | ALL_BITS.map(
            lambda bits: torch.tensor(bits, dtype=torch.int32).view(torch.float32).item()
        ),
    ),
    max_size=5,
)


@given(st.integers(0, 10_000), SPECIALS, st.sampled_from(["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]))  # fmt: skip
def test_counts_in_pieces_are_those_of_a_closer_look(seed, specials, name):
    x = large(seed, specials, scale=100.0)
    x[::3] = x[::3].relu()
    with for_compiled_code():
        careful = [r.measure(x)[0] for r in (Histogram(), OutOfRange(format=name))]
    quick = [r.measure(x)[0] for r in (Histogram(), OutOfRange(format=name))]
    assert torch.equal(quick[0], careful[0])
    assert torch.equal(quick[1], careful[1])
    assert quick[0].sum() == quick[1].sum() == LARGE


@given(st.integers(0, 10_000), SPECIALS, st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))  # fmt: skip
def test_no_nan_and_no_inf_is_missed(seed, specials, dtype):
    x = large(seed, specials, shift=1.0).to(dtype)
    nan, inf = NonFinites().measure(x)
    assert (nan, inf) == (x.isnan().sum(), x.isinf().sum())
    assert (NonFinites().measure_scalar(x) is None) >= bool(nan or inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_sum_that_overflows_makes_nothing_infinite(dtype):
    x = torch.full((100_000,), torch.finfo(dtype).max, dtype=dtype)
    assert x.sum().isinf()
    assert NonFinites().measure(x) == (0, 0)
    x[7], x[8], x[9] = math.inf, -math.inf, math.nan
    assert NonFinites().measure(x) == (1, 2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.complex64, torch.float8_e5m2])
def test_types_that_are_not_summed_are_counted(dtype):
    x = torch.ones(8).to(dtype)
    assert NonFinites().measure_scalar(x) is None
    assert NonFinites().measure(x) == (0, 0)


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.3, -1.0, 1.5, 1e3, -1e5]),
    st.sampled_from([1e-20, 1e-8, 1.0, 1e7, 1e15]),
)
def test_moments_in_few_passes_keep_their_digits(seed, shift, scale):
    x = (large(seed, [(0, 30.0)], shift=shift) * scale).reshape(-1, 1)[: 2**16].reshape(-1, 64)
    wide = x.double()
    deviations = wide - wide.mean()
    _, mean, m2 = Moments().measure(x)
    assert torch.allclose(mean, wide.mean(), rtol=1e-6, atol=1e-6 * scale)
    assert torch.allclose(m2, deviations.square().sum(), rtol=2e-6)
    expected = deviations.pow(4).mean() / deviations.square().mean().square()
    fourth = FourthMoment()
    assert torch.allclose(fourth.finish(fourth.measure(x)).kurtosis, expected, rtol=5e-6)
    of_features = Moments(reduce="feature").measure(x)[2]
    assert torch.allclose(of_features, (wide - wide.mean(0)).square().sum(0), rtol=2e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3e7])
def test_constants_have_no_spread_however_large(value):
    x = torch.full((LARGE,), value)
    assert Moments().measure(x)[2] == 0
    fourth = FourthMoment()
    assert fourth.finish(fourth.measure(x)).kurtosis.isnan()
