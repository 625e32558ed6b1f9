"""Segmentation: noisy squares, their masks, a small U-Net, and how far the masks overlap."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.own.training import seeded


class Segmenter(nn.Module):
    """A small U-Net for masks of one class."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.down2 = nn.Sequential(
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()
        )
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.outc = nn.Conv2d(32, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 1, height, width)."""
        skip = self.down1(x)
        x = self.up(self.down2(skip))
        return self.outc(torch.cat([skip, x], 1))


def masks(step: int) -> Batch:
    """Noisy squares of 16 by 16, and their masks."""
    generator = seeded(step)
    mask = torch.zeros(24, 1, 16, 16)
    for i in range(24):
        top, left, size = torch.randint(0, 8, (3,), generator=generator).tolist()
        mask[i, :, top : top + 4 + size // 2, left : left + 4 + size // 2] = 1
    return mask + 0.5 * torch.randn(mask.shape, generator=generator), mask


def overlap(made: Tensor, target: Tensor) -> Tensor:
    """The Dice coefficients of (batch,), of probabilities and masks."""
    made, target = made.flatten(1), target.flatten(1)
    union = made.sum(1) + target.sum(1)
    return (2 * (made * target).sum(1) + 1) / (union + 1)


def missed(net: nn.Module) -> float:
    """One less the overlap of the masks that are made."""
    net.eval()
    with torch.no_grad():
        x, y = masks(800)
        return float(1 - overlap((net(x) > 0).float(), y).mean())
