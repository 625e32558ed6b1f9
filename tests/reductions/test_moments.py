"""Means and powers of deviations keep their digits."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.reductions import BatchMoments, FourthMoment, Moments
from tests.reductions.stock import LARGE, large


def test_features_of_very_different_size_keep_their_own_spread():
    sizes = torch.logspace(-30, 15, 10)
    x = torch.randn(2000, 10) * sizes
    found = Moments(reduce="feature").finish(Moments(reduce="feature").measure(x))
    assert torch.allclose(found.std, x.double().std(dim=0), rtol=1e-5)


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


@pytest.mark.parametrize("n", [24, 40_000])
@pytest.mark.parametrize("reduce", ["all", "feature"])
def test_deviations_beyond_float32_are_in_range(n, reduce):
    edge = torch.finfo(torch.float32).max
    x = torch.randn(n // 8, 8)
    x[: n // 24] = edge
    x[-1, :5] = -edge
    wide, axes = x.double(), (0, 1) if reduce == "all" else (0,)
    _, mean, m2 = Moments(reduce).measure(x)
    assert torch.allclose(mean, wide.mean(axes), rtol=1e-6)
    expected = (wide - wide.mean(axes)).square().sum(axes)
    assert torch.allclose(m2, expected, rtol=1e-5)
    deviations = wide - wide.mean()
    expected = deviations.pow(4).mean() / deviations.square().mean() ** 2
    fourth = FourthMoment()
    assert fourth.finish(fourth.measure(x)).kurtosis == pytest.approx(float(expected), rel=1e-5)


def test_batches_stay_apart_and_ranks_join_theirs():
    batches, whole = [torch.randn(n, 3, dtype=torch.float64) for n in (8, 5, 4)], Moments("feature")
    reduction = BatchMoments()

    def of(*parts):
        return functools.reduce(reduction.merge, [reduction.measure(x) for x in parts])

    found = reduction.finish(of(*batches))
    each = [whole.finish(whole.measure(x)) for x in batches]
    assert torch.equal(found.mean, torch.stack([one.mean for one in each]))
    assert torch.equal(found.std, torch.stack([one.std for one in each]))
    # One rank has a micro-batch more than the other.
    first, second = (
        of(batches[0][:3], batches[1][:1], batches[2]),
        of(batches[0][3:], batches[1][1:]),
    )
    for states in ((first, second), (second, first)):
        joined = reduction.finish(reduction.merge_ranks(*states))
        assert joined.n.flatten().tolist() == [8, 5, 4]
        torch.testing.assert_close(joined.mean, found.mean)
        torch.testing.assert_close(joined.std, found.std)
