"""The model as a whole in float64, each computed in another way than the package does."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import torch
from torch import nn


def grad_norm(parameters: Iterable[nn.Parameter]) -> float:
    """The norm of all gradients as one vector."""
    every = [p.grad.double().reshape(-1) for p in parameters if p.grad is not None]
    return torch.cat(every).square().sum().sqrt().item()


def clipped_by(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """The share of the norm that is beyond the largest allowed."""
    norm = grad_norm(parameters)
    return (norm - max_norm) / norm if norm > max_norm else 0.0


def loss_spike(losses: Sequence[float]) -> float | None:
    """The robust deviations of the last loss from the 128 before."""
    before = losses[:-1][-128:]
    if len(before) < 32:
        return None
    middle = statistics.median(before)
    width = 1.4826 * statistics.median(abs(x - middle) for x in before)
    return (losses[-1] - middle) / width
