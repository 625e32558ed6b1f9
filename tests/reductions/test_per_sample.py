"""Norms of the samples' shares in a gradient, and the whole gradient's."""

import pytest
import torch

from taiyi_fx.reductions import Noise, PerSample
from taiyi_fx.reductions.weight_gradients import Dense

X, G = torch.randn(6, 3), torch.randn(6, 4)
NORMS = [(g.norm() * x.norm()).item() for x, g in zip(X, G, strict=True)]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [("none", NORMS), ("mean", sum(NORMS) / 6), ("max", max(NORMS))],
    ids=["none", "mean", "max"],
)
def test_norms_of_two_micro_batches_are_those_of_all_samples(reduce, expected):
    reduction = PerSample(reduce=reduce, layer=Dense())
    parts = [reduction.measure_pair(X[at], G[at]) for at in (slice(2), slice(2, 6))]
    found = reduction.finish(reduction.merge(*parts))
    assert found.n == 6
    assert found.norms.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("factor", [1.0, 2.0**-10])
def test_noise_has_the_shares_squares_and_the_gradients(factor):
    reduction = Noise(layer=Dense())
    parts = [reduction.measure_pair(X[at], G[at]) for at in (slice(2), slice(2, 6))]
    found = reduction.finish(reduction.scale(reduction.merge(*parts), factor))
    assert found.square_norms.item() == pytest.approx(
        factor**2 * sum(n**2 for n in NORMS), rel=1e-5
    )
    assert found.square_norm.item() == pytest.approx(
        (factor * (G.T @ X).norm().item()) ** 2, rel=1e-5
    )


def test_no_sample_adds_nothing():
    reduction = Noise(layer=Dense())
    some, none = reduction.measure_pair(X, G), reduction.measure_pair(X[:0], G[:0])
    assert reduction.finish(reduction.merge(some, none)).n == 6
    merged = reduction.finish(reduction.merge(some, none))
    assert all(map(torch.equal, merged, reduction.finish(some)))


def test_no_gradient_at_all_is_merged_with_others():
    reduction = Noise(layer=Dense())
    zeros, ones = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    none = reduction.measure_pair(zeros, zeros)
    some = reduction.measure_pair(ones, ones)
    assert not reduction.finish(reduction.merge(none, none)).direction.any()
    expected = ones.T @ ones
    for state in (reduction.merge(none, some), reduction.merge(some, none)):
        found = reduction.finish(state)
        torch.testing.assert_close(found.square_norm, expected.square().sum())
        torch.testing.assert_close(found.direction[0] / found.direction.norm(), expected / 6)
