"""Memory that runs out inside monitoring, at every operation in turn: training goes on, bit for bit.

As SQLite tests itself: the k-th allocation fails, for every k. What torch allocates here it
allocates in operations, so the k-th operation of ours fails.
"""

import os
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.passes.probes import modes
from taiyi_fx.step import evaluate, plan, queue
from tests.examples import some_or_all

CFG = {
    nn.Linear: ["InputSndNorm", "OutputGradSndNorm", "WeightNorm", "InputStd", "InputCovMaxEig"],
    nn.ReLU: ["DeadNeuronRatio", "OutputGradNonFinite"],
    "": ["OutputRMS"],
}
STEPS = 5
FAILS_AT = 2
PACKAGE = os.path.join(os.path.dirname(taiyi_fx.__file__), "")


class Failing(TorchDispatchMode):
    """Has the k-th operation of the package's own fail, at one step."""

    def __init__(self, k):
        super().__init__()
        self.left, self.failed_in = k, None
        self.is_armed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.is_armed and (place := _place_of_ours()):
            self.left -= 1
            if self.left == 0:
                self.failed_in = f"{func} in {place}"
                raise torch.OutOfMemoryError("out of memory")
        return func(*args, **(kwargs or {}))


def _place_of_ours():
    """Where in the package the operation is asked for; "" if the model or the training asks."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "/torch/nn/modules/" in file or "/tests/" in file or file.startswith("<"):
            return ""
        if file.startswith(PACKAGE):  # a checkout may lie in a folder of that name, with its .venv
            return f"{file.removeprefix(PACKAGE)}:{frame.f_code.co_name}"
        frame = frame.f_back
    return ""


@pytest.fixture(autouse=True)
def seen(monkeypatch):
    """Has torch dispatch modes, such as `Failing`, see our operations, too."""
    monkeypatch.setattr(modes, "_len_torch_dispatch_stack", lambda: 0)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model, k=0, monitor=None):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Failing(k) as mode:
        for step in range(STEPS):
            mode.is_armed = step == FAILS_AT
            optimizer.zero_grad()
            model(torch.randn(4, 6)).square().mean().backward()
            if monitor is not None:
                monitor.track(step)
            optimizer.step()
    return mode


@some_or_all("apart", 4, 1)
def test_training_goes_on_whichever_operation_of_ours_fails(apart):
    plain = net()
    train(plain)
    whole = taiyi_fx.instrument(net(), CFG)
    train(whole, 0, whole.monitor)
    expected = {(r.module, r.quantity, r.step): r.value for r in whole.monitor.records}
    k = tried = losses = 0
    while True:
        k, tried = k + apart, tried + 1
        model = taiyi_fx.instrument(net(), CFG)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mode = train(model, k, model.monitor)
            records = model.monitor.records
        if mode.failed_in is None:
            break
        said = [str(w.message) for w in caught if issubclass(w.category, MonitorWarning)]
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(a, b), mode.failed_in
        found = {(r.module, r.quantity, r.step): r.value for r in records}
        for series, value in found.items():
            # What was to be computed beside the one that failed is computed without it.
            assert value == pytest.approx(expected[series], rel=1e-6), (series, mode.failed_in)
        lost = expected.keys() - found.keys()
        assert {step for _, _, step in lost} <= {FAILS_AT}, (mode.failed_in, lost)
        # What is measured together is measured alone once that fails: then nothing may be lost.
        assert sum("out of memory" in text for text in said) == bool(lost), (mode.failed_in, said)
        losses += bool(lost)
    assert k > 100
    assert losses > tried // 2


@pytest.mark.parametrize("place", ["Planner.planned", "Evaluator.start", "StepQueue.put"])
def test_a_step_that_fails_in_the_middle_is_dropped_whole_and_told_once(place, monkeypatch):
    model = taiyi_fx.instrument(net(), CFG)
    train(model, 0, model.monitor)
    steps = {r.step for r in model.monitor.records}
    owner, _, method = place.partition(".")
    home = {"Planner": plan.Planner, "Evaluator": evaluate.Evaluator, "StepQueue": queue.StepQueue}

    def fails(*_, **__):
        raise MemoryError("none is left")

    with monkeypatch.context() as patch:
        patch.setattr(home[owner], method, fails)
        with pytest.warns(MonitorWarning, match="step 5 is dropped: MemoryError: none is left"):
            step_of(model, 5)
    step_of(model, 6)
    assert {r.step for r in model.monitor.records} == {*steps, 6}


def step_of(model, step):
    model(torch.randn(4, 6)).square().mean().backward()
    model.monitor.track(step)


def test_strict_raises_it():
    model = taiyi_fx.instrument(net(), CFG, strict=True)
    with pytest.raises(torch.OutOfMemoryError):
        train(model, 1, model.monitor)
