"""Without a configuration: a fault is found on a device as on a CPU, and nothing waits for it."""

import contextlib
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.cuda.models import MODELS, Images, Rows


def too_large(model):
    with torch.no_grad():
        model.first.weight.mul_(150)


def dead(model):
    with torch.no_grad():
        model.bn1.bias.fill_(-50.0)


def squashed(model):
    model.last = nn.Sequential(model.last, nn.Softmax(-1))


FAULTS = {
    "a layer begins far too large": (Rows, too_large),
    "no unit fires": (Images, dead),
    "a softmax before the loss": (Rows, squashed),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_finding_is_that_of_a_cpu(device, fault):
    kind, plant = FAULTS[fault]
    assert first_finding(device.kind, kind, plant) == first_finding("cpu", kind, plant)


def first_finding(device, kind, plant):
    torch.manual_seed(0)
    model = kind()
    plant(model)
    shape = next(shape for made, shape in MODELS.values() if made is kind)
    xs = [torch.randn(32, *shape[1:]) for _ in range(40)]
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step, x in enumerate(xs):
            classes = x.flatten(1)[:, :3].argmax(1).to(device)
            loss = nn.functional.cross_entropy(watched(x.to(device)), classes)
            watched.monitor.log("loss", loss)
            loss.backward()
            watched.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        found = watched.monitor.findings[0]
    return found.kind, found.module, found.severity


@pytest.mark.parametrize("name", MODELS)
def test_the_host_does_not_wait_for_the_device(device, name):
    make, shape = MODELS[name]
    model = device.move(make())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    x, steps = device.randn(*shape), 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        for step in range(steps):
            waits = device.no_waiting() if step >= steps // 3 else contextlib.nullcontext()
            with waits:
                loss = watched(x).square().mean()
                watched.monitor.log("loss", loss)
                loss.backward()
                watched.monitor.track(step)
                optimizer.step()
                optimizer.zero_grad()
    assert len(watched.monitor.records) > steps
