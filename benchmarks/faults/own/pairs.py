"""Views of rows, and a network that embeds them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.own.training import normal


def views(step: int, noise: float = 0.4) -> Batch:
    """Two noisy views of each of 64 rows, as (2, 64, 16), and the rows' numbers."""
    x = normal(step, 64, 16)
    two = torch.stack([x + noise * normal(step + 1, 64, 16), x + noise * normal(step + 2, 64, 16)])
    return two, torch.arange(64)


class Embedder(nn.Module):
    """A projector of three layers.

    Args:
        normalized: Whether its rows have a length of 1.
    """

    def __init__(self, *, normalized: bool = True) -> None:
        super().__init__()
        self.normalized = normalized
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.embed = nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of (..., 16)."""
        x = self.embed(self.net(x))
        return F.normalize(x, dim=-1) if self.normalized else x
