"""Modes of the user's own see what the model does, and nothing of a probe's."""

import contextlib
import copy
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import taiyi_fx
from taiyi_fx.passes.probes.modes import (
    are_modes_on,
    is_traced,
    modes_off,
    unseen,
    with_modes_off,
)


class Counts(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class Draws(TorchDispatchMode):
    """Draws a random number for each operation, as modes that simulate hardware do."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, torch.rand(()).item()))
        return func(*args, **(kwargs or {}))


class Net(nn.Module):
    def __init__(self, width, kind=Counts):
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.mode = nn.Sequential(nn.Linear(width, width), nn.ReLU()), kind()

    def forward(self, x):
        with self.mode:
            return self.parts(x)


@pytest.mark.parametrize("width", [4, 256])
@pytest.mark.parametrize("quantity", ["OutputRMS", "OutputGradRMS", "NonFinite", "ForwardOutput"])
@pytest.mark.parametrize("kind", [Counts, Draws])
@pytest.mark.parametrize("around", ["nothing", "the forward", "all"])
def test_a_mode_sees_the_calls_of_the_model_alone(width, quantity, kind, around):
    seen = []
    for is_watched in (False, True):
        model, x = Net(width, kind), torch.ones(64, width)
        stack = contextlib.ExitStack()
        if around == "all":
            stack.enter_context(model.mode)
        with stack:
            call = taiyi_fx.instrument(model, {nn.Module: [quantity]}) if is_watched else model
            for step in range(3):
                with model.mode if around == "the forward" else contextlib.nullcontext():
                    y = call(x)
                y.sum().backward()
                if is_watched:
                    taiyi_fx.monitor_of(call).track(step)
        seen.append(model.mode.calls)
    assert seen[0] == seen[1]


def test_what_torch_traces_of_a_model_has_nothing_of_ours():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(3, 4)
    probed = taiyi_fx.instrument(copy.deepcopy(model), {"*": ["OutputRMS"], "2": ["BackwardInput"]})

    def step_of(model):
        return lambda x: torch.autograd.grad(model(x).square().sum(), [*model.parameters()])

    plain, traced = (make_fx(step_of(m))(x) for m in (model, probed))
    assert traced.code == plain.code
    with pytest.warns(taiyi_fx.MonitorWarning, match="was not called"):
        probed.monitor.track(0)
    probed(x).sum().backward()
    probed.monitor.track(1)
    assert {r.step for r in probed.monitor.records} == {1}


def test_fake_tensors_are_not_read():
    probed = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["OutputRMS", "WeightNorm"]})
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert is_traced()
        assert probed(torch.randn(3, 4)).shape == (3, 2)
    assert not is_traced()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        probed.monitor.track(0)
    assert {r.quantity for r in probed.monitor.records} == {"WeightNorm"}


def test_modes_are_off_in_the_body_alone_and_on_again_in_their_order():
    outer, inner = Counts(), Counts()
    with outer, inner:
        assert are_modes_on()
        with modes_off():
            assert not are_modes_on()
            torch.ones(2)
        with_modes_off(torch.ones)(2)
        unseen(torch.ones, 2)
        assert not inner.calls
        torch.ones(2)
    assert inner.calls
    assert outer.calls
    assert not are_modes_on()
