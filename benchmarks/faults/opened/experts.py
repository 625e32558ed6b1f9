"""Routers that choose by something else than the token, and experts that get too little."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.models import Router
from benchmarks.faults.training import Training

_ROUTER = ("{router}.*", "{mixture}")


@fault("moe", "layers.*.mlp.router.*", "layers.*.mlp", kinds="router")
def routers_of_one_choice(t: Training) -> None:
    """One expert a token, whose weight is divided by itself: no loss of text teaches a router."""
    for module in t.model.modules():
        if isinstance(module, Router):
            module.top_k = 1


@fault("moe", *_ROUTER)
def noise_that_decides_the_routing(t: Training) -> None:
    """Noise for exploring that is far larger than any logit."""
    change_class(
        t.module("router").linear, lambda self, old, x: old(x) + 20 * torch.randn(*x.shape[:-1], 8)
    )


@fault("moe", *_ROUTER, "{mixture}.*", kinds="router|expert|dropped")
def bias_that_rewards_the_busiest(t: Training) -> None:
    """A bias without a loss that is to balance experts, with the wrong sign."""
    bias = torch.zeros(8)
    loads: list[Tensor] = []

    def choose(self, old, x: Tensor) -> Tensor:
        logits = old(x) + bias
        loads.append(logits.detach())
        return logits

    def move() -> None:
        chosen = loads.pop().flatten(0, -2).topk(2, -1).indices
        loads.clear()
        load = torch.bincount(chosen.flatten(), minlength=8).float()
        bias.add_(0.05 * (load - load.mean()).sign())

    change_class(t.module("router").linear, choose)
    t.each_step(move)


@fault("moe", "{mixture}.*", kinds="dropped_tokens")
def capacity_of_six_tokens(t: Training) -> None:
    """Experts that take six tokens of each batch, and drop all others."""

    def forward(self, old, x: Tensor) -> Tensor:
        _, weights, chosen = self.router(x)
        mixed = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = chosen == i
            place = mine.any(-1).flatten().cumsum(0).view(mine.shape[:-1])
            share = (weights * mine * (place <= 6).unsqueeze(-1)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(x)
        return mixed

    change_class(t.module("mixture"), forward)
