"""Readings that did not come are named, with the reason."""

from __future__ import annotations

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.verification import side_by_side


def test_a_missed_call_is_named(monkeypatch, net, x):
    def without_head(model, cfg, schedule):
        cfg = {k: v for k, v in cfg.items() if k != "head"}
        return side_by_side_rescheduled(model, cfg, schedule)

    side_by_side_rescheduled = side_by_side.rescheduled
    monkeypatch.setattr(side_by_side, "rescheduled", without_head)
    cfg = {"fc": ["InputSndNorm"], "head": ["OutputRMS", "WeightNorm"]}
    found = taiyi_fx.verify(net, cfg, x)
    assert not found.ok
    assert found.differences == ()
    assert found.calls == {"fc": (2, 2), "head": (0, 2)}
    first = "OutputRMS of 'head' (no reason is known) in the first step"
    assert found.first_difference == first
    assert "seen 2 of 4, of 2 modules" in str(found)


def test_a_reading_that_is_not_available_is_named_with_its_reason():
    class Token(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.token

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Token()

        def forward(self, x):
            return self.part(x) * x

    found = taiyi_fx.verify(Model(), {"part": ["OutputGradRMS"]}, torch.randn(2, 3))
    assert found.differences == ()
    assert "(the tensor there is a parameter itself" in found.first_difference


def test_gradients_of_several_backwards_are_compared_as_their_sum():
    class Twice(nn.Module):
        """Goes back through a part itself, before the caller's backward does."""

        def __init__(self):
            super().__init__()
            self.part, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            y = self.part(x)
            if y.requires_grad:
                loss = self.head(y).square().sum()
                torch.autograd.grad(loss, self.part.weight, retain_graph=True)
            return y.tanh()

    found = taiyi_fx.verify(Twice(), {"part": ["OutputGradSndNorm"]}, torch.randn(5, 3))
    assert found.ok, found.first_difference
    assert found.worst_error is not None
    assert found.worst_error < 1e-6
