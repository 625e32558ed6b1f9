"""Second moments that their format rounds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.optimizer.moments import lost_moments, undecaying_moments
from tests.findings.given import evidence

STEPS = np.arange(40)


def of(moment, gradient=1e-3):
    site = "SecondMoment.weight", "WeightGradNorm"
    return evidence({("fc", site[0]): moment, ("fc", site[1]): gradient})


def test_a_moment_of_nothing_beside_a_gradient_is_named_from_the_step_on():
    (found,) = lost_moments(of(np.where(STEPS < 5, 1e-6, 0.0)))
    assert (found.kind, found.severity, found.module) == ("lost_moment", "warning", "fc")
    assert (found.quantity, found.step) == ("SecondMoment.weight", 5)
    assert "second moment of 'weight' of 'fc' is exactly 0 from here on, though" in found.text


def test_other_parameters_are_looked_at_beside_their_own_gradient():
    numbers = {("fc", "SecondMoment.bias"): 0.0, ("fc", "ParameterGradNorm.bias"): 1e-3}
    (found,) = lost_moments(evidence(numbers))
    assert "second moment of 'bias' of 'fc'" in found.text


@pytest.mark.parametrize(
    "numbers",
    [
        (1e-12, 1e-3),
        (0.0, 0.0),  # no gradient
        (np.where(STEPS < 30, 0.0, 1e-6), 1e-3),  # not yet trained
        (0.0, np.where(STEPS % 2, 0.0, 1e-3)),  # of a gradient that comes and goes
    ],
)
def test_moments_of_healthy_trainings_are_none(numbers):
    assert [*lost_moments(of(*numbers))] == []


@pytest.mark.parametrize(
    ("dtype", "is_found"), [(torch.float16, True), (torch.bfloat16, False), (torch.float32, False)]
)
def test_adam_in_float16_is_found_in_a_training(dtype, is_found):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-4)
    cfg = [*taiyi_fx.preset("mlp"), {"Linear": [["SecondMoment", "every(1)", {"param": "weight"}]]}]
    watched = taiyi_fx.instrument(model, "mlp" if is_found else cfg, optimizer=optimizer)
    for step in range(24):
        x = torch.randn(256, 16, dtype=dtype)
        (0.05 * F.mse_loss(watched(x).float(), x.float())).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert {one.module for one in every if one.kind == "lost_moment"} == (
        {"0", "2"} if is_found else set()
    )


def falling(to, known=("bfloat16", 0.999)):
    gradient = np.where(STEPS < 10, 1.0, to)
    numbers = {("fc", "WeightNorm"): 1.0, ("fc", "WeightGradNorm"): gradient}
    return replace(evidence(numbers), undecaying_moments={"fc": known} if known else {})


def test_gradients_that_fell_beside_a_moment_that_cannot_are_a_note():
    (found,) = undecaying_moments(falling(0.1))
    assert (found.kind, found.severity, found.module) == ("undecaying_moment", "note", "")
    assert "a number times 0.999 is the number itself" in found.text
    assert "'fc' is 10 times as small as it was" in found.text


@pytest.mark.parametrize("given", [falling(0.8), falling(0.1, known=None), falling(0.0)])
def test_others_are_none(given):
    assert [*undecaying_moments(given)] == []


@pytest.mark.parametrize(
    ("dtype", "beta", "is_found"),
    [(torch.bfloat16, 0.999, True), (torch.bfloat16, 0.95, False), (torch.float32, 0.999, False)],
)
def test_adam_in_bfloat16_is_found_in_a_training(dtype, beta, is_found):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, beta))
    watched = taiyi_fx.instrument(model, "mlp", optimizer=optimizer)
    (weight, *_), moments = [*model.parameters()], []
    for step in range(80):
        x = torch.randn(256, 16, dtype=dtype)
        size = 1.0 if step < 16 else 0.1
        (size * F.mse_loss(watched(x).float(), x.float())).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        moments.append(optimizer.state[weight]["exp_avg_sq"].float().norm().item())
    assert (moments[-1] < 0.99 * max(moments)) != is_found  # it is what the finding says
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert ("undecaying_moment" in {one.kind for one in every}) == is_found
