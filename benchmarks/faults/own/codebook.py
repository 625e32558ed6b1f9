"""An autoencoder for digits whose codes are entries of a codebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.own.digits import standardized


class VectorQuantizer(nn.Module):
    """Rows are replaced by the nearest of a codebook.

    Args:
        own: Whether the loss of the codebook is of its own entries.
    """

    def __init__(self, *, own: bool = True) -> None:
        super().__init__()
        self.own = own
        self.codebook = nn.Embedding(32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What replaces the rows, and the losses of codebook and commitment."""
        weight = self.codebook.weight
        distance = (x[:, None] - weight[None]).pow(2).sum(-1)
        z = self.codebook(distance.argmin(1))
        z_q = self.passed_on(x, z)
        codes = F.mse_loss(z if self.own else z_q, x.detach())
        return z_q, codes + 0.25 * F.mse_loss(x, z.detach())

    def passed_on(self, x: Tensor, z: Tensor) -> Tensor:
        """The entries, with the gradient of what they replace."""
        return x + (z - x).detach()


class VQVAE(nn.Module):
    """An autoencoder with a codebook.

    Args:
        quantizer: Makes the codebook.
    """

    def __init__(self, quantizer: Callable[[], nn.Module] = VectorQuantizer) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
        self.vq = quantizer()
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Digits, and the losses of the codebook."""
        z_q, codes = self.vq(self.encoder(x))
        return self.decoder(z_q), codes


def quantized(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss of what is made and of the codebook."""
    made, codes = net(x)
    return F.mse_loss(made, y) + codes


def vq_error(net: Any) -> float:
    """The error of fresh digits."""
    with torch.no_grad():
        x, _ = standardized(900)
        return float(F.mse_loss(net(x)[0], x))
