"""Copies of tensors, and whole spectra."""

import torch
from torch import nn

from tests.quantities.stock.recorded import recorded


def test_a_copy_is_what_the_tensor_was_when_it_passed():
    x = torch.tensor([[-1.0, 2.0]])
    kept = recorded(nn.ReLU(inplace=True), "ForwardInput", x)[0]
    assert kept.tolist() == [[-1, 2]]
    assert x.tolist() == [[0, 2]]
