"""Batches of any structure, and a loss of any output."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.verification.given import (
    NORMS,
)


def test_a_batch_by_keywords_and_outputs_of_any_structure():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, *, model, cfg, scale=1.0, rest=()):
            y = self.fc(model) * scale
            return {"y": y, "parts": (y.sum(), [y * 2]), "name": "text", "rest": rest}

    x = torch.randn(3, 4, requires_grad=True)
    found = taiyi_fx.verify(Keywords(), NORMS, model=x, cfg=None, scale=2.0, rest=[1])
    assert found.ok
    assert found.compared["output"] == 5
    assert found.compared["gradient"] == 3, "of both parameters and of the input"
    assert x.grad is None


def test_an_input_that_is_made_of_others_and_changed_in_place():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x.mul_(2))

    leaf = torch.randn(3, 4, requires_grad=True)
    x = leaf * 1
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        taiyi_fx.verify(InPlace(), NORMS, leaf)
    assert taiyi_fx.verify(InPlace(), NORMS, x).ok
    assert torch.equal(x, before)


def test_a_loss_of_the_models_own_is_taken():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            return SimpleNamespace(loss=self.used(x).square().mean(), logits=self.unused(x))

    cfg = {"Linear": ["OutputGradSndNorm"]}
    found = taiyi_fx.verify(WithLoss(), cfg, torch.randn(3, 4))
    assert found.ok
    assert found.calls == {"used": (2, 2), "unused": (0, 0)}
    whole = taiyi_fx.verify(
        WithLoss(), cfg, torch.randn(3, 4), loss=lambda out: out.loss + out.logits.sum()
    )
    assert whole.calls == {"used": (2, 2), "unused": (2, 2)}


def test_masked_outputs_and_half_precision_have_a_loss():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x)
            return y.masked_fill(y > 1, -torch.inf)

    found = taiyi_fx.verify(Masked().bfloat16(), NORMS, torch.randn(50, 4).bfloat16())
    assert found.ok
    assert found.worst_error < 1e-5
