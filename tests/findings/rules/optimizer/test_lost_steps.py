"""Steps of SGD that are next to nothing beside its learning rate and gradients."""

import pytest
import torch
from torch import nn

import taiyi_fx


def found_in(make, *, unscales, max_norm=1.0, scale=65536.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cpu", init_scale=scale)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(24):
        x = torch.randn(16, 6)
        loss = (watched(x) - x.sum(1, keepdim=True)).square().mean()
        scaler.scale(loss).backward()
        watched.monitor.track(step, grad_scale=scaler)
        if unscales:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "lost_steps"]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def test_gradients_that_are_clipped_before_they_are_unscaled_are_told():
    (found,) = found_in(sgd, unscales=False)
    assert (found.severity, found.module) == ("alert", "")
    assert "the optimizer moves 2 of 2 weights by" in found.text
    assert found.value < 1e-3


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (sgd, {"unscales": True}),
        (sgd, {"unscales": True, "max_norm": 0.05}),
        (sgd, {"unscales": False, "scale": 1.0}),
        (torch.optim.Adam, {"unscales": False}),
    ],
    ids=["unscaled", "clipped to little", "not scaled", "steps of any gradient"],
)
def test_others_are_none(make, options):
    assert found_in(make, **options) == []
