"""What is read equals what hooks of a plain model see, computed in float64."""

import functools

import pytest
import torch

from tests.cuda.models import Python, Rows
from tests.sides import FAILED, same_both_ways

KINDS = [Rows, Python]


def on(device, kind):
    return functools.partial(lambda: device.move(kind()))


def trains(side, xs, loss_of=lambda y: y.square().sum()):
    optimizer = torch.optim.SGD(side.model.parameters(), lr=0.1)
    for step, x in enumerate(xs):
        loss_of(side.model(x)).backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_float64(device, kind):
    xs = [device.randn(16, 6) for _ in range(3)]
    same_both_ways(lambda side: trains(side, xs), on(device, kind), steps=3)


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_large_batches_are_those_of_float64(device, kind):
    xs = [100 * device.randn(20_000, 6) + 1000 for _ in range(2)]
    way = functools.partial(trains, xs=xs, loss_of=lambda y: y.square().mean())
    same_both_ways(way, on(device, kind), steps=2)


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_are_joined(device, kind):
    xs = [device.randn(n, 6) for n in (4, 8, 6, 2)]

    def way(side):
        for step, pair in enumerate((xs[:2], xs[2:])):
            side.model.zero_grad()
            for x in pair:
                side.model(x).square().mean().backward()
            side.track(step)

    same_both_ways(way, on(device, kind), steps=2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("unscales", [False, True])
def test_loss_scaling_is_taken_out_under_autocast(device, dtype, unscales):
    xs = [device.randn(16, 6) for _ in range(3)]

    def way(side):
        optimizer = torch.optim.SGD(side.model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler(device.kind, init_scale=512.0)
        for step, x in enumerate(xs):
            with torch.autocast(device.kind, dtype):
                loss = side.model(x).float().square().mean()
            scaler.scale(loss).backward()
            if unscales:
                scaler.unscale_(optimizer)
            side.track(step, scale=scaler.get_scale(), unscaled=unscales, given=scaler)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    same_both_ways(way, on(device, Rows), steps=3)


def test_a_step_that_overflows_is_left_out_by_the_scaler_as_ever(device):
    x = device.randn(16, 6)

    def way(side):
        optimizer = torch.optim.SGD(side.model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler(device.kind, init_scale=2.0**60, backoff_factor=2.0**-50)
        for step in (FAILED, 0, 1):
            with torch.autocast(device.kind, torch.float16):
                loss = side.model(x).float().square().mean()
            scaler.scale(loss).backward()
            side.track(step, scale=scaler.get_scale(), given=scaler)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert scaler.get_scale() == 2.0**10

    same_both_ways(way, on(device, Rows), steps=2)
