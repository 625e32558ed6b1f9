"""Pictures that are there without a download: sklearn's digits, and patches of its photographs."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor


@cache
def digits() -> tuple[Tensor, Tensor]:
    """1,797 digits of (1, 8, 8) between 0 and 1, and their classes."""
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(y)


@cache
def coloured(size: int = 32) -> tuple[Tensor, Tensor]:
    """Digits of (3, size, size), normalised, and their classes."""
    x, y = digits()
    x = F.interpolate(x, size=(size, size), mode="bilinear").expand(-1, 3, -1, -1)
    return (x - x.mean()) / x.std(), y


@cache
def patches(size: int = 32) -> Tensor:
    """Patches of (3, size, size) between 0 and 1, of two photographs."""
    photographs = torch.tensor(load_sample_images().images).permute(0, 3, 1, 2) / 255
    small = F.interpolate(photographs, scale_factor=0.5, mode="area")
    tiles = small.unfold(2, size, size).unfold(3, size, size)
    return tiles.permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, size, size).contiguous()


def batches(size: int, *tensors: Tensor) -> torch.utils.data.DataLoader[tuple[Tensor, ...]]:
    """A loader that shuffles, whose last batch is what is left."""
    data = torch.utils.data.TensorDataset(*tensors)
    return torch.utils.data.DataLoader(data, size, shuffle=True)
