"""The largest eigenvalue alone, against a decomposition."""

import pytest
import torch

from taiyi_fx.reductions.lanczos import largest_eigenvalue, largest_of_gram


@pytest.mark.parametrize("eigenvalues", [
    torch.logspace(0, -8, 150), torch.ones(150), torch.linspace(1, 2, 150), torch.eye(150)[0],
    torch.cat([torch.tensor([1.0, 1 - 1e-7]), torch.rand(148) / 2]),
], ids=["decaying", "all alike", "close together", "of rank one", "two at the top"])  # fmt: skip
def test_it_is_that_of_a_decomposition(eigenvalues):
    q, _ = torch.linalg.qr(torch.randn(150, 150, dtype=torch.float64))
    matrix = q @ torch.diag(eigenvalues.double()) @ q.T
    expected = torch.linalg.eigvalsh(matrix)[-1].item()
    assert largest_eigenvalue(matrix).item() == pytest.approx(expected, rel=1e-5)


def test_that_of_zeros_is_zero_and_no_random_number_is_drawn():
    before = torch.get_rng_state()
    assert largest_eigenvalue(torch.zeros(7, 7)) == 0
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(700, 600), (300, 900), (9, 9), (1, 5)])
@pytest.mark.parametrize("decay", [0.0, 0.5, 3.0])
def test_that_of_a_product_is_found_without_it(shape, decay):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(shape, generator=generator, dtype=torch.float64)
    matrix = matrix * torch.arange(1, shape[1] + 1).double() ** -decay
    expected = torch.linalg.svdvals(matrix)[0].square().item()
    assert largest_of_gram(matrix).item() == pytest.approx(expected, rel=1e-6)


def test_that_of_equal_singular_values_and_of_zeros():
    q, _ = torch.linalg.qr(torch.randn(600, 600, dtype=torch.float64))
    assert largest_of_gram(q).item() == pytest.approx(1, rel=1e-6)
    assert largest_of_gram(torch.zeros(5, 600)) == 0
