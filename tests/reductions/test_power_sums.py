"""Sums of powers in few passes: right, or left to who asks."""

import pytest
import torch

from taiyi_fx.reductions.power_sums import central_powers, central_squares


@pytest.mark.parametrize("shift", [0.0, 0.5, 100.0])
def test_powers_of_deviations_are_those_in_float64(shift):
    x = torch.randn(70_000) + shift
    wide = x.double()
    found = central_powers(x)
    assert found is not None
    assert found[0] == pytest.approx(wide.mean().item(), abs=1e-6 * (1 + shift))
    for power, sum_of in zip((2, 3, 4), found[1:], strict=True):
        expected = (wide - wide.mean()).pow(power).sum().item()
        assert sum_of == pytest.approx(expected, rel=1e-5, abs=1e-5 * len(x))


def test_squares_by_feature_are_those_in_float64():
    x = torch.randn(500, 3) * torch.tensor([1e-3, 1.0, 1e3])
    found = central_squares(x, (0,), 500)
    assert found is not None
    assert torch.allclose(found[1], x.double().var(0) * 499, rtol=1e-5)


@pytest.mark.parametrize("x", [torch.ones(9, 2) + 1e-3 * torch.randn(9, 2), torch.full((9, 2), torch.nan)],
                         ids=["a mean above the spread", "NaN"])  # fmt: skip
def test_what_would_lose_digits_is_left_to_who_asks(x):
    assert central_squares(x, (0,), 9) is None


@pytest.mark.parametrize("value", [0.0, 3.0, 1e20, torch.inf])
def test_no_digits_of_powers_no_answer(value):
    assert central_powers(torch.full((9,), value)) is None
