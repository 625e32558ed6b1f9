"""Kept steps."""

import torch

from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.flags import NonFiniteFlag
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction

X = torch.ones(10)


def test_memory_counts_each_tensor_once():
    kept = KeptStep(0, None)
    kept.calls.append(Call((X,), {"again": X}, is_compiled=False))
    kept.functions.append(StepCall.of(StepFunction(print), (X, X + 1), {}))
    assert kept.bytes == 2 * X.nbytes
    kept.measure()
    assert (kept.batch_bytes, kept.device_bytes) == (2 * X.nbytes, 0)


def test_a_step_of_functions_has_no_other_calls():
    kept = KeptStep(0, None)
    assert not kept.is_of_functions
    kept.functions.append(StepCall.of(StepFunction(print), (), {}))
    assert kept.is_of_functions
    kept.has_other_calls = True
    assert not kept.is_of_functions


def test_overflows_of_gradients_are_bad_without_a_scaler_alone():
    flags = [NonFiniteFlag([X.sum() * f], nan_alone=False) for f in (1, torch.inf)]
    kept = KeptStep(0, None)
    assert not kept.is_bad(may_overflow=False)
    kept.flags = flags[0], flags[1]
    assert kept.is_bad(may_overflow=False)
    assert not kept.is_bad(may_overflow=True)
