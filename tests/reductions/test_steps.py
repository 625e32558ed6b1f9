"""The statistic of a step: its size, what moves, and what the format of the parameter takes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.reductions import StepOfParameter
from tests.quantities.references.optimizer import lost

STEP = StepOfParameter()


@given(
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    scale=st.sampled_from([1e-7, 1e-4, 1e-3, 1.0]),
    seed=st.integers(0, 99),
    cut=st.integers(0, 200),
)
def test_pieces_make_the_whole(dtype, scale, seed, cut):
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(200, generator=generator).to(dtype)
    u = torch.randn(200, generator=generator, dtype=torch.float64) * scale
    u[seed % 200] = 0
    found = STEP.finish(STEP.measure_pair(p, u))
    parts = [STEP.measure_pair(p[a:b], u[a:b]) for a, b in ((0, cut), (cut, 200))]
    for one, other in zip(found, STEP.finish(STEP.merge(*parts)), strict=True):
        torch.testing.assert_close(one, other)
    assert found.n == 200
    assert found.norm.item() == pytest.approx(u.norm().item())
    assert found.moving == 199
    assert (found.lost / found.moving).item() == pytest.approx(lost(p, u), abs=1e-6)


def test_the_norm_is_scaled_and_the_counts_are_not():
    p, u = torch.ones(3), torch.tensor([0.0, 1e-9, 1.0])
    n, norm, moving, gone = STEP.scale(STEP.measure_pair(p, u), -2.0)
    assert (n, moving, gone) == (3, 2, 1)
    assert norm.item() == pytest.approx(2.0)


def test_a_complex_parameter_is_two_real_ones():
    p = torch.ones(2, dtype=torch.complex64)
    assert STEP.measure_pair(p, torch.tensor([[0.5, 0.0], [1e-9, 1.0]]))[2:] == (3, 1)


def test_leading_elements_alone_are_looked_at_and_a_wrong_number_of_them_is_refused():
    p, u = torch.ones(2, 3), torch.tensor([[1.0, 0.0, 1e-9], [1.0, 1.0, 1.0]])
    first = StepOfParameter(max_elements=3)
    assert first.finish(first.measure_pair(p, u))[::2] == (3, 2)
    with pytest.raises(ValueError, match="a positive whole number, not 0"):
        StepOfParameter(max_elements=0)
