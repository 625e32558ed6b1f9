"""Torch function modes of the user's own see what the model does, and nothing of a probe's."""

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import taiyi_fx
from taiyi_fx.passes.probes.modes import are_modes_on, modes_off, with_modes_off


class Counts(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.mode = nn.Sequential(nn.Linear(width, width), nn.ReLU()), Counts()

    def forward(self, x):
        with self.mode:
            return self.parts(x)


@pytest.mark.parametrize("width", [4, 256])
@pytest.mark.parametrize("quantity", ["OutputRMS", "OutputGradRMS", "NonFinite", "ForwardOutput"])
@pytest.mark.parametrize("around", [False, True])
def test_a_mode_sees_the_calls_of_the_model_alone(width, quantity, around):
    seen = []
    for is_watched in (False, True):
        model, x = Net(width), torch.ones(64, width)
        call = taiyi_fx.instrument(model, {nn.Module: [quantity]}) if is_watched else model
        for step in range(2):
            if around:
                with model.mode:
                    y = call(x)
            else:
                y = call(x)
            y.sum().backward()
            if is_watched:
                taiyi_fx.monitor_of(call).track(step)
        seen.append(model.mode.calls)
    assert seen[0] == seen[1]


def test_modes_are_off_in_the_body_alone_and_on_again_in_their_order():
    outer, inner = Counts(), Counts()
    with outer, inner:
        assert are_modes_on()
        with modes_off():
            assert not are_modes_on()
            torch.ones(2)
        with_modes_off(torch.ones)(2)
        assert not inner.calls
        torch.ones(2)
    assert inner.calls
    assert outer.calls
    assert not are_modes_on()
