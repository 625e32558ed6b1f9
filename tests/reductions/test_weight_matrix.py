"""A parameter as a matrix: its squared singular values, against torch's own."""

import pytest
import torch

from taiyi_fx.reductions import WeightMatrix

MATRIX = WeightMatrix()


def value(x):
    return MATRIX.finish(MATRIX.measure(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (4, 3, 2, 2), (5,), (), (600, 530), (520, 2000)])
def test_values_are_those_of_a_decomposition(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    rows = shape[0] if shape else 1
    expected = torch.linalg.svdvals(x.double().reshape(rows, -1))
    found = value(x)
    torch.testing.assert_close(found.largest.sqrt() * found.unit, expected[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(
        found.squares.clamp(min=0).sqrt() * found.unit, expected, rtol=1e-6, atol=1e-7
    )
    torch.testing.assert_close(found.square_norm.sqrt() * found.unit, x.double().norm())


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e200])
def test_no_square_leaves_the_range(scale):
    x = torch.randn(7, 5, dtype=torch.float64) * scale
    found = value(x)
    expected = torch.linalg.svdvals(x / scale)[0]
    torch.testing.assert_close(found.largest.sqrt() * (found.unit / scale), expected)


def test_of_a_rank_below_512_the_others_are_zero():
    x = torch.randn(40, 3).double() @ torch.randn(3, 60).double()
    found = value(x)
    assert (found.squares > found.zero).sum() == 3


@pytest.mark.parametrize("shape", [(4, 3), (600, 600)])
@pytest.mark.parametrize("what", [torch.nan, torch.inf])
def test_what_is_not_finite_makes_all_of_it_nan(shape, what):
    x = torch.randn(shape)
    x[1, 1] = what
    found = value(x)
    assert found.largest.isnan()
    assert found.squares.isnan().all()
    assert found.square_norm.isnan()


def test_rows_are_joined_and_scaled():
    x = torch.randn(6, 4)
    joined = MATRIX.merge(MATRIX.measure(x[:2]), MATRIX.measure(x[2:]))
    assert torch.equal(joined[0], x)
    assert torch.equal(MATRIX.scale(joined, 3.0)[0], 3 * x)


def test_a_complex_matrix_has_the_norm_of_its_two_parts():
    x = torch.randn(4, 3, dtype=torch.complex64)
    found = value(x)
    assert (found.square_norm.sqrt() * found.unit).item() == pytest.approx(x.abs().norm().item())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_a_parameter_without_elements_has_no_singular_values(shape):
    with pytest.raises(ValueError, match="has no singular values: it is empty"):
        WeightMatrix().measure(torch.empty(shape))
