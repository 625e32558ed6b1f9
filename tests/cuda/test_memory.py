"""Reading a model of usual size takes no memory that is worth a word."""

import torch

from benchmarks.overhead.hooks import NORMS
from benchmarks.overhead.memory import peak_of
from benchmarks.overhead.models import GPT, loss_of, probed
from tests.cuda.models import instrumented


def test_the_peak_of_a_due_step_is_that_of_the_plain_model(device):
    """Of which activations are the larger part, gradients the smaller."""
    width, depth, tokens = (1024, 6, 512) if device.is_cuda else (256, 3, 128)
    ids = torch.randint(256, (8, tokens + 1)).to(device.kind)
    peaks, held = [], []
    for is_watched in (False, True):
        model = device.move(GPT(256, tokens, width, depth))
        if is_watched:
            model = instrumented(model, {name: list(NORMS) for name in probed(model)})
        step = stepping(model, ids, is_watched)
        for _ in range(3):
            step()
        model.zero_grad()
        peaks.append(peak_of(step, ids.device))
        model.zero_grad()
        held.append(torch.cuda.memory_allocated() if device.is_cuda else 0)
        parameters = sum(p.nbytes for p in model.parameters())
        del model, step
    assert peaks[0] <= peaks[1] <= 1.01 * peaks[0]
    assert abs(held[1] - held[0]) <= 0.01 * parameters


def stepping(model, ids, is_watched):
    numbers = iter(range(100))

    def step():
        model.zero_grad()
        loss_of(model(ids[:, :-1]), ids[:, 1:]).backward()
        if is_watched:
            model.monitor.track(next(numbers))

    return step
