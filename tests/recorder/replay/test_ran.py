"""A step that was run again, compared with the one of then."""

import torch

from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.ran import Ran


def called():
    call = Call((torch.ones(2),), {}, is_compiled=False)
    call.end(torch.zeros(2))
    return call


def test_an_output_of_the_same_bits_is_no_difference():
    ran = Ran(0)
    ran.compare(called(), torch.zeros(2))
    assert (ran.differences, ran.notes, len(ran.outputs)) == ([], [], 1)


def test_another_output_is_one_with_the_reasons_that_are_known():
    ran, call = Ran(0, is_one_by_one=True), called()
    assert ran.reasons == []
    call.args[0].add_(1)
    ran.compare(call, torch.ones(2))
    assert ran.differences == ["an output has other bits than it had then"]
    assert ran.reasons == [
        "an argument of the model was changed in place since it was called",
        "compiled code ran then, and its operations one by one now",
    ]
