"""The cosine, at any scale and size."""

import pytest
import torch

from taiyi_fx.quantities.stock.similarity import cosine


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("n", [3, 1024, 5000])
def test_it_is_that_in_float64(scale, n):
    a, b = torch.randn(n) * scale, torch.randn(n) * scale
    expected = torch.cosine_similarity(a.double() / scale, b.double() / scale, dim=0, eps=0.0)
    assert cosine(a, b).item() == pytest.approx(expected.item(), abs=1e-6)


def test_opposites_are_minus_one_and_zero_has_none():
    a = torch.randn(7, 3)
    assert cosine(a, -3 * a).item() == pytest.approx(-1, abs=1e-7)
    assert cosine(a, torch.zeros(7, 3)).isnan()
