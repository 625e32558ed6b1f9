"""The comparison of a plain and an instrumented model: what is judged, and what cannot be."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import nn

import taiyi_fx
from tests.verification.given import (
    NORMS,
    assert_as_before,
    calling,
    everything,
    instrumenting,
)


def test_a_step_where_nothing_is_due_is_compared_too(monkeypatch, net, x):
    def after(instrumented, y):
        return y + 1e-3 if instrumented.monitor.next_step % 2 and instrumented.training else y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, {"fc": ["InputSndNorm"]}, x)
    first = "output in the first step where nothing is due: by up to"
    assert found.first_difference.startswith(first)


def test_what_instrumenting_changes_is_caught(monkeypatch, net, x):
    instrumenting(monkeypatch, lambda instrumented: torch.rand(1))
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference == "random state of torch after instrument: other values"
    instrumenting(monkeypatch, lambda instrumented: setattr(net, "count", 7))
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference == "attribute 'count' of the model after instrument: is new"
    assert net.count == 0


def test_an_error_of_the_instrumented_model_alone_is_a_difference(monkeypatch, net, x):
    def after(instrumented, y):
        raise RuntimeError("not here")

    calling(monkeypatch, after)
    before = everything(net)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "the model in the first step: raised RuntimeError: not here"
    assert found.first_difference == first
    assert found.cost_due is None
    assert "cost" not in str(found)
    assert_as_before(net, before)


def test_a_model_that_is_not_itself_twice_is_reported(x):
    class Entropy(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            noise = np.frombuffer(os.urandom(32), dtype=np.uint8).sum()
            return self.first(x), self.last(x) + float(noise)

    found = taiyi_fx.verify(Entropy(), NORMS, x)
    assert not found.ok
    assert found.differences == ()
    assert found.first_difference.startswith(
        "the plain model differs from itself in output[1] in the first step"
    )
    assert "it cannot be judged, as the plain model differs from itself" in str(found)
    assert "use_deterministic_algorithms" in str(found)
    assert found.worst_error is None


def test_what_comes_before_the_unstable_is_judged(monkeypatch, x):
    class Entropy(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            self.noise = os.urandom(8)
            return self.fc(x)

    calling(monkeypatch, lambda instrumented, y: y + 1)
    found = taiyi_fx.verify(Entropy(), NORMS, x)
    assert found.first_difference.startswith("output in the first step")
    assert found.unstable[0].startswith("attribute 'noise' of the model after the first step")


def test_functions_are_listed_as_not_compared():
    class Adding(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.fc(x))

    found = taiyi_fx.verify(Adding(), {"torch.relu": ["OutputRMS"]}, torch.randn(3, 4))
    assert found.ok
    assert found.not_compared == ("OutputRMS of functions",)
    assert "none to be seen: nothing is read at calls of modules" in str(found)
