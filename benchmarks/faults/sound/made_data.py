"""Data that the trainings learn from, made anew at each run."""

from __future__ import annotations

import torch
from torch import Tensor


def walks(samples: int, length: int, words: int, first: int = 0) -> Tensor:
    """Rows of words of which each is one of three that may follow the one before it.

    Args:
        samples: How many rows.
        length: Of each.
        words: How many there are.
        first: The number of the first word; those below it are left for marks.
    """
    steps = torch.tensor([1, 1, 1, 2, 2, 5])[torch.randint(6, (samples, length))]
    return first + (torch.randint(words, (samples, 1)) + steps.cumsum(1)) % words


def padded(rows: Tensor, padding: int = 0, shortest: int = 3) -> Tensor:
    """The rows, each cut to a length of its own and padded on the right."""
    lengths = torch.randint(shortest, rows.shape[1] + 1, (len(rows), 1))
    return rows.where(torch.arange(rows.shape[1]) < lengths, padding)


def waves(samples: int, length: int, noise: float = 0.1) -> Tensor:
    """Series of (samples, length), each a sine of its own phase and period, with noise."""
    phase, period = 6.28 * torch.rand(samples, 1), 8 + 8 * torch.rand(samples, 1)
    time = torch.arange(length)
    return torch.sin(6.28 * time / period + phase) + noise * torch.randn(samples, length)
