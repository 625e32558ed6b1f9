"""What a fault and its mended twin have in common, and how much worse the fault makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import Fault
from benchmarks.faults.tasks import build
from benchmarks.faults.training import Training, run

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A loss of a model, and of a batch's inputs and targets."""

_HELD_OUT = range(10_000, 10_008)


def set_up(
    t: Training,
    model: nn.Module,
    batch: Callable[[int], Batch],
    loss: Loss,
    judge: Loss | None = None,
    *,
    rate: float = 3e-3,
    steps: int = 150,
) -> Loss:
    """Trains another model from the start, by Adam.

    Args:
        t: Is changed.
        model: What is trained.
        batch: Makes the inputs and targets of a step.
        loss: What is made small.
        judge: What should be small; the loss where it is not told.
        rate: The learning rate.
        steps: How many.

    Returns:
        What the training is judged by.
    """
    t.model, t.batch, t.steps = model, batch, steps
    t.optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        value = loss(model, x, y)
        value.backward()
        return value

    t.backward = backward
    return judge or loss


def errors(fault: Fault) -> tuple[float, float]:
    """How far the mended and the faulty model are from what is wanted, in evaluation mode."""
    return _error(fault, is_mended=True), _error(fault, is_mended=False)


def _error(fault: Fault, *, is_mended: bool) -> float:
    t = build(fault.task)
    plant: Any = fault.plant  # all of this package take it
    judge: Loss = plant(t, is_mended=is_mended)
    model = run(t).eval()
    torch.manual_seed(2)
    with torch.no_grad():
        found = [judge(model, *t.batch(step)) for step in _HELD_OUT]
    return float(torch.stack(found).mean())


def seeded(step: int) -> torch.Generator:
    """Random numbers of a step's data."""
    return torch.Generator().manual_seed(7000 + step)
