"""Numbers in float64 that records are compared with."""

import math

import pytest
import torch
from torch import nn

from taiyi_fx.config.check import check
from taiyi_fx.verification.reference import (
    Expected,
    expected_at,
    expected_of_parameters,
    is_compared,
)


def subscription(*entry):
    (found,) = check(nn.Sequential(nn.Linear(4, 3)), {"0": [list(entry)]}).subscriptions
    return found


@pytest.mark.parametrize(
    ("name", "side", "value"),
    [
        ("InputSndNorm", "input", 5.0),
        ("InputMean", "input", 3.5),
        ("InputStd", "input", math.sqrt(0.5)),
        ("OutputRMS", "output", math.sqrt(12.5)),
        ("OutputGradAbsMax", "output_grad", 4.0),
    ],
)
def test_a_number_is_that_of_the_side_it_is_read_at(name, side, value):
    x = torch.tensor([[3.0, 4.0]])
    asked = subscription(name)
    found = expected_at(asked, side, x)
    assert found.value == pytest.approx(value, rel=1e-15)
    others = {"input", "output", "output_grad"} - {side}
    assert all(expected_at(asked, other, x) is None for other in others)


def test_parameters_and_their_gradients_have_their_own():
    layer = nn.Linear(1, 2)
    layer.weight.data = torch.tensor([[3.0], [4.0]])
    assert [e.value for e in expected_of_parameters(subscription("WeightNorm"), layer)] == [5.0]
    assert list(expected_of_parameters(subscription("WeightGradNorm"), layer)) == []
    layer.weight.grad = torch.tensor([[6.0], [8.0]])
    assert [e.value for e in expected_of_parameters(subscription("WeightGradNorm"), layer)] == [10]


def test_what_has_options_or_no_reference_is_not_compared():
    assert is_compared(subscription("InputMean"))
    assert not is_compared(subscription("InputCovCondition"))


def test_an_error_is_a_share_of_the_size():
    assert Expected(2.0, 4.0).error(3.0) == 0.25
    assert Expected(math.nan, 0.0).error(math.nan) == 0.0
    assert Expected(1.0, 1.0).error(math.inf) == math.inf
