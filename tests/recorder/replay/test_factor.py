"""Factors between gradients."""

import pytest
import torch

from taiyi_fx.recorder.replay.factor import common_factor, exact_factor, norms_of


def test_a_factor_between_gradients_is_found():
    gradients = [torch.ones(4), None, torch.ones(9)]
    a = norms_of(gradients)
    b = norms_of([torch.ones(4) / 2, None, torch.ones(9) / 2])
    assert common_factor(gradients, a) == 1
    assert common_factor(gradients, b) == 0.5
    assert common_factor(gradients, [b[0], None, a[2]]) is None
    assert common_factor(gradients, [x if x is None else x * (1 + 2**-22) for x in a]) is None
    assert common_factor([torch.zeros(4)], [torch.tensor(1.0)]) is None


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_in_half_precision_what_rounding_does_not_bring_is_no_factor(kind):
    torch.manual_seed(0)
    gradients = [torch.randn(64, 32).to(kind), torch.randn(3).to(kind)]
    more = torch.finfo(kind).eps * 3
    other = norms_of([gradients[0] / 2, gradients[1] / 2 * (1 + more)])
    assert common_factor(gradients, other) is None
    flipped = [gradients[0], gradients[1] * (1 + torch.finfo(kind).eps)]
    assert common_factor(gradients, norms_of(flipped)) is None


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", [[(3,)], [(64, 32), (64,), (7, 5)]])
def test_the_very_factor_is_found_from_norms(kind, shapes):
    for seed in range(20):
        torch.manual_seed(seed)
        gradients = [torch.randn(shape, dtype=kind) for shape in shapes]
        factor = (torch.rand((), dtype=kind) + 0.01) / 3
        clipped = [g * factor for g in gradients]
        about = common_factor(gradients, norms_of(clipped))
        found = exact_factor([*gradients, None], [*norms_of(clipped), None], about)
        again = [g * found for g in gradients]
        assert norms_of(again) == norms_of(clipped)
        assert len(shapes) == 1 or all(map(torch.equal, again, clipped))


@pytest.mark.parametrize("of", [None, torch.float32])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_the_very_factor_is_found_from_norms_in_half_precision(kind, of, scale):
    for seed in range(20):
        torch.manual_seed(seed)
        gradients = [(torch.randn(*n) * scale).to(kind) for n in [(64, 32), (64,), (1,), (7, 5)]]
        factor = (torch.rand((), dtype=of or kind) + 0.01) / 3
        clipped = [g * factor for g in gradients]
        about = common_factor(gradients, norms_of(clipped))
        found = exact_factor(gradients, norms_of(clipped), about)
        again = [g * found for g in gradients]
        assert norms_of(again) == norms_of(clipped)
        # Norms in float32 do not show each last bit of a product of 11 bits by one of 24.
        assert (kind, of) == (torch.float16, torch.float32) or all(map(torch.equal, again, clipped))


def test_where_no_factor_brings_those_norms_it_is_the_estimate():
    assert exact_factor([torch.ones(4)], [torch.tensor(torch.pi)], 0.5) == 0.5


def test_norms_of_half_precision_are_in_float32():
    large = torch.full((100,), 60000.0, dtype=torch.float16)
    norm, none, other = norms_of([large, None, torch.ones(4, dtype=torch.float64)])
    assert (norm.dtype, none, other.dtype) == (torch.float32, None, torch.float64)
    assert float(norm) == pytest.approx(6e5, rel=1e-6)
    assert float(other) == 2
