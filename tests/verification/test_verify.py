"""`verify`: a change that monitoring makes is named, and the model is put back."""

from __future__ import annotations

import copy
import itertools
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import output, output_grad, quantity
from taiyi_fx.testing import Chain
from taiyi_fx.testing.blocks import BLOCKS, D
from tests.verification.given import (
    NORMS,
    assert_as_before,
    calling,
    everything,
)


@dataclass(frozen=True)
class Doing:
    """A reduction that does something else, besides."""

    what: str = "nothing"

    def measure(self, x):
        _DEEDS[self.what](x)
        return (x.detach().double().sum(),)

    def merge(self, a, b):
        return (a[0] + b[0],)

    def scale(self, state, factor):
        return (state[0] * factor,)

    def finish(self, state):
        return state[0]


_DEEDS = {
    "nothing": lambda x: None,
    "scales": lambda x: x.data.mul_(1 + 2**-10),
    "draws": lambda x: torch.rand(1),
    "draws in Python": lambda x: random.random(),
    "draws in NumPy": lambda x: np.random.rand(),
}


@quantity(found=output.reduce(Doing))
def of_output_doing(found):
    return found


@quantity(found=output_grad.reduce(Doing))
def of_gradient_doing(found):
    return found


def test_a_healthy_model_passes_and_all_is_reported(net, x):
    cfg = {**NORMS, "fc": ["WeightNorm", "WeightGradNorm", "InputCovCondition", "InputAbsMax"]}
    found = taiyi_fx.verify(net, cfg, x)
    assert found.ok
    assert (found.first_difference, found.differences, found.unseen) == (None, (), ())
    assert found.calls == {"fc": (2, 2), "bn": (2, 2), "drop": (2, 2), "head": (2, 2)}
    assert found.not_compared == ("InputCovCondition",)
    assert found.readings == 2 * (4 * 3 + 3)
    assert found.worst_error is not None
    assert 0 < found.worst_error < 1e-5
    assert found.cost_due > 0
    assert found.cost_idle > 0
    assert found.compared["gradient"] == 6 + 1
    assert found.compared["buffer"] == 3
    assert found.compared["attribute"] > 3
    text = str(found)
    assert text.startswith("verdict  monitoring changed nothing, and saw every call\n")
    assert "seen 8 of 8, of 4 modules" in text
    assert "not compared with float64: InputCovCondition" in text
    assert "of a plain step where all is due" in text
    assert repr(found) == "<verification: monitoring changed nothing, and saw every call>"


@pytest.mark.parametrize("block", BLOCKS)
def test_any_block_passes(block):
    found = taiyi_fx.verify(Chain(block.__name__), NORMS, torch.randn(3, 4, D))
    assert found.ok, str(found)
    assert found.worst_error < 1e-5


def test_what_is_due_seldom_is_verified_all_the_same(net, x):
    cfg = {"fc": [["InputSndNorm", "linear(100, 50)"]]}
    assert taiyi_fx.verify(net, cfg, x).calls == {"fc": (2, 2)}


@pytest.mark.parametrize(
    ("entry", "first"),
    [
        ([of_output_doing, "every(1)", {"what": "scales"}], "output in the first step: by up to"),
        ([of_output_doing, "every(1)", {"what": "draws"}], "random state of torch after"),
        (
            [of_output_doing, "every(1)", {"what": "draws in Python"}],
            "random state of Python after the first step",
        ),
        (
            [of_output_doing, "every(1)", {"what": "draws in NumPy"}],
            "random state of NumPy after the first step",
        ),
    ],
)
def test_a_probe_that_does_something_is_caught(x, entry, first):
    found = taiyi_fx.verify(nn.Sequential(nn.Linear(4, 6)), {"0": [entry]}, x)
    assert not found.ok
    assert found.first_difference.startswith(first)
    assert f"monitoring made a difference: {first}" in str(found)


def test_a_gradient_that_is_changed_is_caught(monkeypatch, net, x):
    def after(instrumented, y):
        if y.requires_grad:
            y.register_hook(lambda g: g * 1.5)
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference.startswith("gradient of 'fc.weight' in the first step: by up to")


def test_a_gradient_that_a_probe_changes_is_caught():
    entry = [of_gradient_doing, "every(1)", {"what": "scales"}]
    wide = nn.Sequential(nn.Linear(600, 600), nn.Linear(600, 2))
    found = taiyi_fx.verify(wide, {"0": [entry]}, torch.randn(400, 600))
    assert found.first_difference.startswith("gradient of '0.")


def test_a_buffer_that_is_changed_in_the_second_step_is_caught(monkeypatch, net, x):
    calls = itertools.count()

    def after(instrumented, y):
        if next(calls) == 1:
            instrumented.bn.running_mean.data += 1e-3
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "buffer 'bn.running_mean' after the second step: by up to"
    assert found.first_difference.startswith(first)


def test_an_attribute_that_is_changed_is_caught(monkeypatch, net, x):
    def after(instrumented, y):
        instrumented.stats["seen"].append(1)
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "attribute 'stats' of the model['seen'][2] after the first step"
    assert found.first_difference.startswith(first)


def marked(model):
    """The model with gradients, mixed flags and a stream of random numbers under way."""
    model(torch.randn(8, 4)).sum().backward()
    model.head.weight.grad = None
    model.bn.eval()
    random.random(), np.random.rand()
    return model


def test_all_is_put_back_bit_for_bit(net, x):
    net = marked(net)
    before, version = everything(net), net.fc.weight._version
    grads = [p.grad for p in net.parameters()]
    held = net.stats, net.stats["seen"], list(net.stats["seen"]), net.stats["last"], net.scale.grad
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert_as_before(net, before)
    assert all(p.grad is g for p, g in zip(net.parameters(), grads, strict=True))
    assert net.fc.weight._version == version, "what has not changed is not written to"
    assert net.stats is held[0]
    assert net.stats["seen"] is held[1]
    assert net.stats["seen"] == held[2]
    assert net.stats["last"] is held[3]
    assert net.scale.grad is held[4]
    assert net.count == 1
    assert not hasattr(net, "monitor")
    assert all("forward" not in vars(module) for module in net.modules())
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())


@pytest.mark.parametrize("fails_at", [0, 1, 4, 9])
def test_all_is_put_back_after_an_error_too(net, x, fails_at):
    net = marked(net)
    calls = itertools.count()

    def hook(module, args, y):
        if next(calls) == fails_at:
            raise KeyboardInterrupt

    net.drop.register_forward_hook(hook)
    before, count = everything(net), net.count
    with pytest.raises(KeyboardInterrupt):
        taiyi_fx.verify(net, NORMS, x)
    assert_as_before(net, before)
    assert net.count == count
    assert all("forward" not in vars(module) for module in net.modules())


def test_a_model_in_evaluation_is_trained_and_put_back(net, x):
    net.eval()
    before = everything(net)
    assert taiyi_fx.verify(net, NORMS, x).calls["fc"] == (2, 2)
    assert_as_before(net, before)


def test_an_error_of_the_plain_model_is_the_users(net):
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        taiyi_fx.verify(net, NORMS, torch.randn(8, 5))


def test_hooks_that_keep_what_they_see_keep_nothing_of_it(net, x):
    seen = []
    net.fc.register_forward_hook(lambda module, args, y: seen.append(y))
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert seen == []


def test_an_optimizer_that_steps_in_backward_is_put_back(net, x):
    optimizer = torch.optim.Adam([net.fc.weight])

    def step(parameter):
        optimizer.step()

    net.fc.weight.register_post_accumulate_grad_hook(step)
    before = everything(net)
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert_as_before(net, before)
    assert len(optimizer.state) == 0


def test_a_model_without_a_gradient_is_compared_as_far_as_it_goes(x):
    model = nn.Sequential(nn.Linear(4, 2)).requires_grad_(False)
    found = taiyi_fx.verify(model, {"0": ["InputSndNorm", "OutputGradSndNorm"]}, x)
    assert found.ok
    assert found.calls == {"0": (2, 2)}


def test_wrong_arguments_are_refused(net, x):
    with pytest.raises(TypeError, match=r"verify takes a torch\.nn\.Module, not a int"):
        taiyi_fx.verify(3, NORMS, x)
    with pytest.raises(TypeError, match="instrumented already"):
        taiyi_fx.verify(taiyi_fx.instrument(net, NORMS), NORMS, x)
    with pytest.raises(taiyi_fx.ConfigError, match="no quantity is named 'OutputRSM'"):
        taiyi_fx.verify(net, {"fc": ["OutputRSM"]}, x)
    with pytest.raises(TypeError, match="loss has to go by position"):
        taiyi_fx.verify(net, NORMS, x, loss=x)
    with pytest.raises(TypeError, match=r"returns a scalar, not 'a tensor of shape \(8, 3\)'"):
        taiyi_fx.verify(net, NORMS, x, loss=lambda y: y)
    with pytest.raises(ValueError, match="steps is a whole number of at least 1, not 0"):
        taiyi_fx.verify(net, NORMS, x, steps=0)
    with pytest.raises(ValueError, match="the configuration edits the model"):
        taiyi_fx.verify(net, {"fc": [taiyi_fx.edit(value=torch.abs)]}, x)
    with pytest.raises(TypeError, match="copying it raised"):
        taiyi_fx.verify(net, NORMS, x, more=(i for i in range(3)))
    with pytest.raises(ValueError, match=r"'weight' has no shape yet: run the model once before"):
        taiyi_fx.verify(nn.LazyLinear(3), NORMS, x)
    with pytest.raises(ValueError, match="is on the meta device"):
        taiyi_fx.verify(copy.deepcopy(net).to("meta"), NORMS, x)
