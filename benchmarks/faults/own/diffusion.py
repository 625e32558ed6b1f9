"""Diffusion of digits: a network that says the noise, and its training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.own.digits import digits
from benchmarks.faults.own.training import Batches, normal, seeded, train
from benchmarks.faults.training import Training


class Denoiser(nn.Module):
    """Says the noise in digits at a time.

    Args:
        timed: Whether it is told the time, or the size of the batch.
    """

    def __init__(self, *, timed: bool = True) -> None:
        super().__init__()
        self.timed = timed
        self.time_mlp = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 96))
        self.inp, self.mid, self.out = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Noise of (batch, 64)."""
        if not self.timed:
            time = torch.full_like(time, x.size(0))
        rate = torch.exp(-torch.arange(8) * 0.8)
        angle = time[:, None] * rate
        embedded = self.time_mlp(torch.cat([angle.sin(), angle.cos()], 1))
        h = F.silu(self.inp(x) + embedded)
        return self.out(F.silu(self.mid(h) + embedded))


def centered(step: int) -> Batch:
    """Flat digits between -1 and 1, and themselves."""
    x = 2 * digits(step)[0] - 1
    return x, x


def diffuse(t: Training, net: nn.Module, betas: Tensor, batch: Batches = centered) -> None:
    """Trains a network to say the noise.

    Args:
        t: The training.
        net: Is told the noisy rows and the time.
        betas: The share of noise that each time adds.
        batch: What noise is added to.
    """
    alphas_cumprod = torch.cumprod(1 - betas, 0)

    def noised(step: int) -> Batch:
        x, _ = batch(step)
        time = torch.randint(len(betas), (len(x),), generator=seeded(step))
        noise, a = normal(step, *x.shape), alphas_cumprod[time][:, None]
        return torch.cat([a.sqrt() * x + (1 - a).sqrt() * noise, time[:, None].float()], 1), noise

    def loss(net: nn.Module, x: Tensor, noise: Tensor) -> Tensor:
        return F.mse_loss(net(x[:, :64], x[:, 64]), noise)

    train(t, net, loss, noised, lr=5e-3)
    t.steps = 150
