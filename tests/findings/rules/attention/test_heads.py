"""Heads of an attention that add nothing, or far more than the others."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.attention.heads import odd_heads
from tests.findings.given import evidence

STEPS = np.arange(40)


def of(smallest, median=1.0, largest=1.3, every=1.0):
    numbers = {"HeadNorm.smallest": smallest, "HeadNorm.median": median}
    numbers |= {"HeadNorm.largest": largest, "HeadNorm": every}
    return evidence({("h.1.attention()", name): values for name, values in numbers.items()})


def test_a_head_that_returns_nothing_is_named_from_the_step_on():
    (found,) = odd_heads(of(np.where(STEPS < 12, 0.6, 0.0)))
    assert (found.kind, found.severity, found.step) == ("dead_head", "warning", 12)
    assert "a head of 'h.1.attention()' returns next to nothing from here on, 0 where" in found.text


def test_half_of_them_are_told_as_that():
    (found,) = odd_heads(of(0.0, median=0.0))
    assert "half of the heads of 'h.1.attention()' return next to nothing" in found.text


def test_one_that_is_far_beyond_the_others_is_named():
    (found,) = odd_heads(of(0.8, largest=np.where(STEPS < 4, 1.2, 80.0), every=28.0))
    assert (found.kind, found.severity, found.step) == ("odd_head", "warning", 4)
    assert "returns 80 times what half of the others do" in found.text


@pytest.mark.parametrize(
    "numbers",
    [
        {"smallest": 0.3, "largest": 1.6},
        {"smallest": 0.02, "largest": 6.0},  # one that rests, one that is loud
        {"smallest": np.where(STEPS < 30, 0.0, 0.6)},  # a branch that began at nothing
        {"smallest": 0.0, "median": 0.0, "largest": 0.0, "every": 0.0},  # and one that stays so
        {"smallest": 1.0, "median": 1.0, "largest": 1.0},  # a single head
    ],
)
def test_heads_of_healthy_models_are_none(numbers):
    assert [*odd_heads(of(**numbers))] == []


class Attention(nn.Module):
    """Causal attention of four heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16, bias=False) for _ in range(3))
        self.proj = nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (4, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("factor", "kind"), [(1.0, None), (0.0, "dead_head"), (200.0, "odd_head")])
def test_a_head_whose_values_have_another_scale_is_found_in_a_training(factor, kind):
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), Attention(), nn.LayerNorm(16))
    with torch.no_grad():
        model[1].v.weight[4:8] *= factor  # the fault
    if not factor:
        model[1].v.weight.register_hook(lambda g: g.index_fill(0, torch.arange(4, 8), 0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, "transformer", optimizer=optimizer)
    for step in range(40):
        x = torch.randn(8, 12, 16)
        F.mse_loss(watched(x), x.roll(1, 1)).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = {(one.kind, one.module) for one in watched.monitor.findings if "head" in one.kind}
    assert found == ({(kind, "1.attention()")} if kind else set())
