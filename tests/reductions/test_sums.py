"""Sums that keep their digits on tensors of any size."""

import pytest
import torch

from taiyi_fx.reductions import Moments, Norm


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
