"""Digits, and a network that has learnt to tell them."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch


def digits(step: int) -> Batch:
    """Flat digits between 0 and 1, and themselves."""
    x, _ = data.images(step)
    x = ((x - x.min()) / (x.max() - x.min())).flatten(1)
    return x, x


def standardized(step: int) -> Batch:
    """Flat digits of mean 0 and deviation 1, and themselves."""
    x = data.images(step)[0].flatten(1)
    return x, x


class Backbone(nn.Module):
    """Features of digits and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        )  # fmt: skip
        self.fc: nn.Module = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        return self.fc(self.backbone(x).mean((2, 3)))


@cache
def pretrained() -> dict[str, Tensor]:
    """The state of a backbone that has learnt digits."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = Backbone()
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
        for step in range(150):
            x, y = data.images(20_000 + step)
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    return {name: value.clone() for name, value in net.state_dict().items()}
