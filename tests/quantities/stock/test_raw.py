"""Copies of tensors, and whole spectra."""

import torch
from torch import nn

from tests.quantities.stock.recorded import recorded


def test_a_copy_is_what_the_tensor_was_when_it_passed():
    x = torch.tensor([[-1.0, 2.0]])
    kept = recorded(nn.ReLU(inplace=True), "ForwardInput", x)[0]
    assert kept.tolist() == [[-1, 2]]
    assert x.tolist() == [[0, 2]]


def test_a_bound_keeps_the_first_rows():
    x = torch.randn(5, 2)
    kept = recorded(nn.Identity(), ["ForwardOutput", "every(1)", {"max_elements": 4}], x)[0]
    assert torch.equal(kept, x[:2])


def test_all_eigenvalues_are_those_of_the_covariance_in_descending_order():
    x = torch.randn(20, 3)
    found = recorded(nn.Identity(), "ForwardInputEigOfCov", x)[0]
    expected = torch.linalg.eigvalsh(torch.cov(x.double().T)).flip(0)
    assert torch.allclose(found.double(), expected, rtol=1e-4)
