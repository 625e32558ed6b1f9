"""Readings are right on streams of one's own, and the host waits for none of them."""

import contextlib
import functools

import pytest
import torch

from taiyi_fx.step.host import Copies
from tests.cuda.models import MODELS, ONE_GRAPH, Rows, pair
from tests.sides import same_both_ways


def test_forward_backward_and_track_may_have_streams_of_their_own(device):
    xs = [device.randn(4096, 6) for _ in range(3)]

    def way(side):
        optimizer = torch.optim.SGD(side.model.parameters(), lr=0.1)
        for step, x in enumerate(xs):
            optimizer.zero_grad()
            with device.side_stream():
                loss = side.model(x).square().mean()
            with device.side_stream():
                loss.backward()
            with device.side_stream():
                side.track(step)
            optimizer.step()

    same_both_ways(way, functools.partial(lambda: device.move(Rows())), steps=3)


@pytest.mark.parametrize(
    ("name", "is_compiled"), [*((m, False) for m in MODELS), *((m, True) for m in ONE_GRAPH)]
)
def test_the_host_does_not_wait_for_the_device(device, name, is_compiled):
    _, model, xs = pair(name, device)
    run = torch.compile(model, backend="aot_eager") if is_compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(xs * 3):
        waits = device.no_waiting() if step >= len(xs) else contextlib.nullcontext()
        with waits:  # the first steps make what the others use again
            optimizer.zero_grad()
            run(x).square().mean().backward()
            model.monitor.track(step)
            optimizer.step()
    assert {r.step for r in model.monitor.records} == set(range(3 * len(xs)))


def test_numbers_come_to_the_host_in_one_copy_of_each_type(device):
    originals = [
        torch.randn(3, 4),
        torch.tensor(True),
        torch.randn(5, dtype=torch.complex64),
        torch.arange(7),
        torch.randn(2, dtype=torch.float64),
        torch.zeros(0),
    ]
    kinds = {x.dtype for x in originals}
    copies = Copies([x.to(device.kind) for x in originals])
    sent = [copy for copy, _ in copies._sent]
    assert len(sent) == (len(kinds) if device.is_cuda else 0)
    assert all(copy.joined.is_pinned() for copy in sent)
    for found, expected in zip(copies.tensors(), originals, strict=True):
        assert found.is_cpu
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    assert copies.are_there
