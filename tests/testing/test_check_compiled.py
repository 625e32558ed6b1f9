"""Compiled code records what eager code does; what does not is shown."""

import pytest
import torch

import taiyi_fx
from taiyi_fx.testing import (
    CheckFailure,
    check_compiled,
)
from tests.testing import wrong


def test_a_quantity_is_the_same_in_compiled_code():
    check_compiled(wrong.right_mean, floor=wrong.mean_floor, max_examples=3)


def test_what_compiled_code_gets_wrong_is_caught_and_its_program_fails(run_program):
    class Counting(wrong.Mean):
        def measure(self, x):
            return super().measure(x + (1 if torch.compiler.is_compiling() else 0))

    @taiyi_fx.quantity("other_when_compiled", mean=taiyi_fx.output.reduce(Counting))
    def other_when_compiled(mean):
        return mean

    with pytest.raises(CheckFailure, match="in compiled code: recorded") as failure:
        check_compiled(other_when_compiled)
    with pytest.raises(AssertionError):
        run_program(failure.value.program)
