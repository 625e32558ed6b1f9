"""A training of the author's own model and loss, in place of the task's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.training import Losses, Training

Loss = Callable[[Any, Any, Tensor], Tensor]
"""The loss of a model, of its inputs and targets; the model's class is its author's business."""

Batches = Callable[[int], Batch]
"""The batch of a step."""

Figure = Callable[[Any], float]
"""A number by which its author sees how a trained model does; small is good."""


def train(
    t: Training, model: nn.Module, loss: Loss, batch: Batches | None = None, *, lr: float = 1e-3
) -> None:
    """Has a training be of another model, by Adam.

    Args:
        t: The training.
        model: Its new model.
        loss: Its new loss.
        batch: Its new batches; the task's own if there are none.
        lr: The learning rate.
    """
    t.model, t.backward, t.batch = model, minimized(loss), batch or t.batch
    t.optimizer = torch.optim.Adam(model.parameters(), lr=lr)


def minimized(loss: Loss) -> Losses:
    """The forward and the backward of a loss."""

    def backward(model: nn.Module, x: Any, y: Tensor) -> Tensor:
        value = loss(model, x, y)
        value.backward()
        return value

    return backward


def seeded(step: int) -> torch.Generator:
    """The random numbers of a step."""
    return torch.Generator().manual_seed(7000 + step)


def normal(step: int, *shape: int) -> Tensor:
    """Normal numbers that are the same each time a step is made."""
    return torch.randn(*shape, generator=seeded(step))


def errors_of(batch: Batches) -> Figure:
    """The share of fresh samples that a classifier gets wrong, in evaluation mode."""

    def figure(model: nn.Module) -> float:
        model.eval()
        with torch.no_grad():
            x, y = batch(10_000)
            made = model(x)
        return float((made.argmax(-1) != y).float().mean())

    return figure
