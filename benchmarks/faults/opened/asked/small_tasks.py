"""Trainings of which several faults need one: of a number, of yes or no, and of a mask."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.training import Losses, Training

Loss = Callable[[Tensor, Tensor], Tensor]
"""A loss of what a model gives and what it should give."""


def begin(t: Training, model: nn.Module, backward: Losses, rate: float = 1e-3) -> None:
    """Trains another model from the start, by Adam.

    Args:
        t: Is changed.
        model: What is trained; frozen parameters are left out.
        backward: Its forward and backward.
        rate: The learning rate.
    """
    t.model, t.backward = model, backward
    t.optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)


def trained_by(loss: Loss) -> Losses:
    """The forward and backward of a loss."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        value = loss(model(x), y)
        value.backward()
        return value

    return backward


def perceptron(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with activations between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def regression(t: Training, loss: Loss = F.mse_loss, act: type[nn.Module] = nn.ReLU) -> None:
    """Trains a perceptron to tell a number that is no linear function of the row.

    Args:
        t: Is changed.
        loss: Of predictions and numbers of (batch, 1).
        act: Class of the activations.
    """

    def numbers(step: int) -> Batch:
        x, _ = data.rows(step)
        return x, (x[:, :1] * x[:, 1:2] + x[:, 2:3].abs() - 0.8)

    begin(t, perceptron(16, 64, 64, 1, act=act), trained_by(loss), 3e-3)
    t.batch = numbers


def yes_or_no(t: Training, loss: Loss = F.binary_cross_entropy_with_logits) -> None:
    """Trains a perceptron to tell whether a row is of one of two classes.

    Args:
        t: Is changed.
        loss: Of predictions and answers of (batch, 1).
    """

    def answers(step: int) -> Batch:
        x, y = data.rows(step)
        return x, (y < 2).float().unsqueeze(1)

    begin(t, perceptron(16, 64, 64, 1), trained_by(loss), 3e-3)
    t.batch = answers


class Segmenter(nn.Module):
    """A small network that says of each pixel whether it is part of the stroke."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.last = nn.Conv2d(32, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 1, 8, 8)."""
        x = self.down(x)
        return self.last(torch.cat([x, self.middle(x)], 1))


def segmentation(
    t: Training, loss: Loss = F.binary_cross_entropy_with_logits, noise: float = 0.5
) -> None:
    """Trains a network to find the strokes of digits.

    Args:
        t: Is changed.
        loss: Of logits and masks of (batch, 1, 8, 8).
        noise: How much of it is added to the digits.
    """

    def masks(step: int) -> Batch:
        x, _ = data.images(step)
        added = torch.randn(x.shape, generator=torch.Generator().manual_seed(step))
        return x + noise * added, (x > 0.5).float()

    begin(t, Segmenter(), trained_by(loss), 3e-3)
    t.batch = masks
