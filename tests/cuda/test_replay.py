"""A step that went wrong on a device is kept, found and run again there."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder import load_bad_step


class Unit(nn.Module):
    """Rows of length one, which a row of zeros is not."""

    def forward(self, x):
        return x / x.norm(dim=1, keepdim=True)


def made(dropout):
    return nn.Sequential(nn.Linear(6, 8, bias=False), Unit(), nn.Dropout(dropout))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_operation_is_named(device, tmp_path, dropout):
    model = device.move(made(dropout))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = taiyi_fx.Recorder(checkpoint_every=2)
    options = {"optimizer": optimizer, "run": tmp_path / "run", "recorder": recorder}
    watched = taiyi_fx.instrument(model, {nn.Module: ["NonFinite"]}, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        for step in range(8):
            x = device.randn(4, 6)
            x[2] *= step != 5
            watched(x).square().mean().backward()
            watched.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        watched.monitor.close()
    (found,) = recorder.replays
    assert (found.step, found.phase, found.operation, found.module) == (5, "forward", "div", "1")
    assert found.is_exact
    again = load_bad_step(Path(found.saved)).run_on(made(dropout))  # on a CPU
    assert (again.operation, again.module) == ("div", "1")
