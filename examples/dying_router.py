"""A tiny mixture of experts whose router, unbalanced, sends all tokens to a few of them: find it.

Asks for no quantity: the preset of mixtures of experts reads the choices of each router.
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx

STEPS, BATCH, WIDTH, EXPERTS, K = 200, 256, 16, 8, 2


class Mixture(nn.Module):
    """Experts of which each row gets two, weighted by the router."""

    def __init__(self) -> None:
        super().__init__()
        self.top_k = K
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH))
            for _ in range(EXPERTS)
        )
        self.imbalance = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        shares = self.router(x).softmax(-1)
        weights, chosen = shares.topk(self.top_k, dim=-1)
        load = F.one_hot(chosen, EXPERTS).float().mean((0, 1))
        self.imbalance = EXPERTS * (load * shares.mean(0)).sum()
        mixed = x
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(x)
        return mixed


def main(steps: int = STEPS, *, balance: float = 0.0) -> list[taiyi_fx.Finding]:
    """Trains, prints what was found, and returns it; ``balance`` of 0.1 is right."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    first, second = Mixture(), Mixture()
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), first, nn.LayerNorm(WIDTH), second)
    teacher = torch.randn(WIDTH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    warnings.simplefilter("ignore")  # it is told at its step, too
    for step in range(steps):
        x = torch.randn(BATCH, WIDTH) + 1  # data have a mean, which a router can follow
        loss = F.mse_loss(watched(x), (x @ teacher).sin())
        watched.monitor.log("loss", loss)
        (loss + balance * (first.imbalance + second.imbalance)).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    print(watched.monitor.findings)
    return watched.monitor.findings


if __name__ == "__main__":
    main()
