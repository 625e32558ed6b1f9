"""Optimizers that count fewer steps than were taken."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.optimizer.lost_state import lost_states
from tests.findings.given import evidence

NAMES = ("a", "b", "c")


def of(counts, moves=0.01, steps=None):
    known = evidence({(name, "UpdateRatio.weight"): moves for name in NAMES}, steps)
    return [*lost_states(replace(known, step_counts=dict(zip(NAMES, counts, strict=True))))]


def test_a_count_that_began_anew_is_the_optimizers_or_one_weights():
    (of_all,) = of((1, 1, 1))
    assert (of_all.kind, of_all.severity, of_all.module) == ("lost_state", "warning", "")
    assert "counts 1 step of the weights" in of_all.text
    (of_one,) = of((40, 3, 40))
    assert of_one.module == "b"


@pytest.mark.parametrize(
    ("counts", "moves"),
    [((40, 40, 40), 0.01), ((39, 30, 25), 0.01), ((4, 4, 4), np.arange(40) % 10 == 0)],
    ids=["all", "some skipped", "micro-batches"],
)
def test_counts_of_steps_that_were_taken_are_none(counts, moves):
    assert of(counts, moves) == []


def test_what_is_read_now_and_then_may_be_of_micro_batches():
    assert of((200, 200, 200), np.full(40, 0.01), range(0, 800, 20)) == []
    dense = [*range(10), *range(20, 620, 20)]
    assert of((100, 100, 100), np.full(40, 0.01), dense) != []


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_an_optimizer_that_is_made_anew_at_each_step_is_told(is_made_anew):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, {"Linear": ["UpdateRatio"]}, optimizer=optimizer)
    for step in range(20):
        watched(torch.randn(8, 4)).square().sum().backward()
        watched.monitor.track(step)
        if is_made_anew:
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        optimizer.step()
        optimizer.zero_grad()
    kinds = [found.kind for found in watched.monitor.findings]
    assert ("lost_state" in kinds) == is_made_anew
