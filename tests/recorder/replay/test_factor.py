"""Factors between gradients."""

import pytest
import torch

from taiyi_fx.recorder.replay.factor import common_factor, exact_factor, norms_of


def test_a_factor_between_gradients_is_found():
    a, b = (
        norms_of([torch.ones(4), None, torch.ones(9)]),
        norms_of([torch.ones(4) / 2, None, torch.ones(9) / 2]),
    )
    assert common_factor(a, a) == 1
    assert common_factor(a, b) == 0.5
    assert common_factor(a, [b[0], None, a[2]]) is None
    assert common_factor(a, [x if x is None else x * (1 + 2**-22) for x in a]) is None


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", [[(3,)], [(64, 32), (64,), (7, 5)]])
def test_the_very_factor_is_found_from_norms(kind, shapes):
    for seed in range(20):
        torch.manual_seed(seed)
        gradients = [torch.randn(shape, dtype=kind) for shape in shapes]
        factor = (torch.rand((), dtype=kind) + 0.01) / 3
        clipped = [g * factor for g in gradients]
        about = common_factor(norms_of(gradients), norms_of(clipped))
        found = exact_factor([*gradients, None], [*norms_of(clipped), None], about)
        again = [g * found for g in gradients]
        assert norms_of(again) == norms_of(clipped)
        assert len(shapes) == 1 or all(map(torch.equal, again, clipped))


def test_where_no_factor_brings_those_norms_it_is_the_estimate():
    assert exact_factor([torch.ones(4)], [torch.tensor(torch.pi)], 0.5) == 0.5


def test_norms_of_half_precision_are_in_float32():
    large = torch.full((100,), 60000.0, dtype=torch.float16)
    norm, none, other = norms_of([large, None, torch.ones(4, dtype=torch.float64)])
    assert (norm.dtype, none, other.dtype) == (torch.float32, None, torch.float64)
    assert float(norm) == pytest.approx(6e5, rel=1e-6)
    assert float(other) == 2
