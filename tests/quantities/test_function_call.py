"""The stand-in for calls of a function."""

import operator

import pytest
import torch
from torch import nn

from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import ATTENTION


@pytest.mark.parametrize(
    ("function", "inplace", "expected"),
    [
        (torch.relu, False, False),
        (torch.relu, True, True),
        (torch.relu_, False, True),
        (operator.iadd, False, True),
        (operator.and_, False, False),
        (ATTENTION, False, False),
    ],
)
def test_functions_that_change_their_first_argument(function, inplace, expected):
    assert FunctionCall(function, inplace=inplace).inplace is expected


def test_it_calls_the_function_and_its_caller_is_no_part_of_it():
    caller = nn.Linear(2, 2)
    call = FunctionCall(torch.add, caller=caller)
    assert call(1, torch.tensor(2)) == 3
    assert call.caller is caller
    assert list(call.children()) == []
    assert FunctionCall(torch.add).caller is None
