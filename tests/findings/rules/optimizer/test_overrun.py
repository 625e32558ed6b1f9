"""Rates that have come to nothing and climb again."""

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.findings import GroupSettings
from taiyi_fx.findings.rules.optimizer.overrun import overrun_schedules
from tests.findings.given import evidence, knowing

STEPS = np.arange(60)


def cosine(period, floor=0.0):
    return 0.1 * (floor + (1 - floor) * (1 + np.cos(np.pi * STEPS / period)) / 2)


def found_in(rate, initial=0.1):
    known = evidence({("", "LearningRate"): rate}, STEPS)
    return [
        *overrun_schedules(
            knowing(known, group_settings=(GroupSettings((), 0.0, False, initial=initial),))
        )
    ]


@pytest.mark.parametrize(
    "rate",
    [
        cosine(30),
        cosine(12),
        np.repeat(cosine(6)[:20], 3),
        np.minimum(STEPS / 5, 1) * cosine(25),
    ],
    ids=["twice as long", "waves", "by epochs", "with a warm-up"],
)
def test_a_cosine_that_goes_on_is_told(rate):
    (found,) = found_in(rate)
    assert (found.kind, found.severity, found.module) == ("overrun_schedule", "warning", "")
    assert found.step == 5 + np.argmin(rate[5:])
    assert "climbs again, to" in found.text


@pytest.mark.parametrize(
    ("rate", "initial"),
    [
        (cosine(59), 0.1),
        (cosine(55), 0.1),
        (cosine(30, floor=0.1), 0.1),
        (np.concatenate([cosine(30)[:30]] * 2), 0.1),
        (0.001 + 0.1 * np.abs((STEPS - 20) % 40 - 20) / 20, 0.001),
        (cosine(30), 0.0),
        (np.concatenate([cosine(30)[:31], 0.01 * (1 + np.arange(29)).clip(max=10)]), 0.1),
        (np.where(STEPS < 30, 0.1, 0.0), 0.1),
        (np.full(60, 0.1), 0.1),
    ],
    ids=[
        "once",
        "a little",
        "a floor",
        "restarts",
        "cycles",
        "unknown",
        "a warm-up anew",
        "a stop",
        "constant",
    ],
)
def test_others_are_not(rate, initial):
    assert found_in(rate, initial) == []


def test_a_scheduler_of_torch_that_is_stepped_by_batches_is_told_and_one_that_restarts_is_not():
    schedulers = torch.optim.lr_scheduler

    def kinds(make):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = make(optimizer)
        watched = taiyi_fx.instrument(model, {"": ["LearningRate"]}, optimizer=optimizer)
        for step in range(60):
            watched(torch.randn(8, 4)).square().mean().backward()
            watched.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        return {found.kind for found in watched.monitor.findings}

    assert "overrun_schedule" in kinds(lambda o: schedulers.CosineAnnealingLR(o, T_max=20))
    for make in (
        lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=20),
        lambda o: schedulers.CosineAnnealingLR(o, T_max=60),
        lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=61),
        lambda o: schedulers.CyclicLR(o, 0.001, 0.1, step_size_up=10),
    ):
        assert "overrun_schedule" not in kinds(make)
