"""Calls of a step's function, as they are kept."""

from typing import NamedTuple

import pytest
import torch

from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction, copied


class Batch(NamedTuple):
    x: torch.Tensor
    name: str


def test_copies_are_of_tensors_alone_and_equal_tensors_stay_one():
    x, other = torch.ones(2, requires_grad=True), object()
    value = (Batch(x, "a"), {"again": [x], "other": other})
    batch, rest = copied(value)
    assert (type(batch), batch.name, rest["other"]) == (Batch, "a", other)
    assert batch.x is rest["again"][0]
    assert batch.x is not x
    assert batch.x.requires_grad
    assert torch.equal(batch.x, x)


def test_arguments_are_copies_and_a_change_of_them_reaches_nothing():
    x = torch.ones(2)
    call = StepCall.of(StepFunction(print), (x,), {"y": x})
    args, kwargs = call.arguments()
    args[0].add_(1)
    assert torch.equal(x, torch.ones(2))
    assert kwargs["y"] is args[0]
    assert call.tensors() == [x, x]
    assert not call.has_other_batch(args[0])


def test_a_batch_of_a_reference_is_compared_with_that_of_then():
    made = {7: torch.ones(2)}
    call = StepCall.of(StepFunction(print, lambda x: 7, made.get), (torch.ones(2), 1), {})
    assert (call.args, call.tensors()) == ((7, 1), [])
    assert call.arguments()[0] == (made[7], 1)
    assert not call.has_other_batch(torch.ones(2))
    assert call.has_other_batch(torch.zeros(2))


def test_a_batch_by_name_cannot_be_referred_to():
    function = StepFunction(copied, lambda x: 7, lambda row: row)
    with pytest.raises(TypeError, match="copied takes the batch as its first argument"):
        StepCall.of(function, (), {"value": 1})


def test_the_gradient_that_reaches_what_it_returned_is_kept():
    x = torch.ones(2, requires_grad=True)
    call = StepCall.of(StepFunction(print), (), {})
    loss = x.sum()
    call.end((None, {"loss": loss, "other": x.detach()}))
    (loss * 3).backward()
    assert {i: float(g) for i, g in call.gradients.items()} == {0: 3.0}


def test_a_function_is_named_as_its_text_has_it():
    def inner():
        pass

    assert StepFunction(inner).name == "inner"
    assert StepFunction(Batch.count).name.endswith("count")
