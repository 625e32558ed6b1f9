"""Gradients of outputs, and how they turn from step to step."""

import pytest
import torch
from torch import nn

from tests.quantities.stock.recorded import recorded


def test_a_gradient_that_stays_has_the_cosine_one_and_the_first_step_none():
    x = torch.randn(3, 2)
    found = recorded(nn.Linear(2, 2), "OutputGradCorrelation", x, x, backward=True)
    assert found == {1: pytest.approx(1)}


def test_a_smaller_last_batch_has_no_cosine():
    x = torch.randn(3, 2)
    found = recorded(nn.Linear(2, 2), "OutputGradCorrelation", x, x[:2], x[:2], backward=True)
    assert list(found) == [2]


def test_both_names_of_the_norm_are_the_same_number():
    x = torch.randn(3, 2)
    layer = nn.Linear(2, 2)
    first, second = (recorded(layer, name, x, backward=True) for name in ("OutputGradNorm", "OutputGradSndNorm"))  # fmt: skip
    assert first == second
    assert first[0] == pytest.approx(6**0.5)
