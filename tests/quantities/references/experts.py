"""Choices of experts in float64, by sorting, token after token."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from taiyi_fx.testing import Seen

EXPERTS = 5


class Router(nn.Module):
    """A router whose logits are twice its input, and that returns one of several things."""

    def __init__(self, returns: str = "logits", k: int = 2, capacity: int = 2) -> None:
        super().__init__()
        self.returns, self.top_k, self.capacity = returns, k, capacity
        self.num_experts = EXPERTS

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Logits, and beside them choices, a mask or a dispatch, or each of these alone."""
        logits = x * 2
        indices = logits.topk(self.top_k, dim=-1).indices
        if self.returns == "logits":
            return logits
        if self.returns == "choices":
            return logits, logits.gather(-1, indices).softmax(-1), indices
        if self.returns == "choices alone":
            return indices, logits.gather(-1, indices).softmax(-1)
        mask = torch.zeros_like(logits, dtype=torch.int64).scatter(-1, indices, 1)
        mask = mask * (mask.cumsum(-2) <= self.capacity)
        if self.returns == "mask":
            return mask, logits.amax(-1, keepdim=True), logits
        place = (mask.cumsum(-2) - 1).clamp(min=0)
        places = torch.eye(self.capacity, device=x.device)[place.clamp(max=self.capacity - 1)].to(
            logits.dtype
        )
        return places * mask.unsqueeze(-1), logits.sum()


def chosen(logits: Tensor, k: int) -> list[list[int]]:
    """The experts of each token."""
    tokens = logits.detach().double().reshape(-1, logits.shape[-1])
    return [sorted(range(len(t)), key=lambda e: -t[e])[:k] for t in tokens.tolist()]


def counts(logits: Tensor, k: int) -> list[int]:
    """The number of choices of each expert."""
    every = [e for token in chosen(logits, k) for e in token]
    return [every.count(e) for e in range(logits.shape[-1])]


def kept(logits: Tensor, k: int, capacity: int) -> list[int]:
    """Those that each expert has room for, sample by sample."""
    found = [counts(sample, k) for sample in logits.reshape(-1, *logits.shape[-2:])]
    return [sum(min(capacity, sample[e]) for sample in found) for e in range(logits.shape[-1])]


def of_step(s: Seen) -> tuple[list[int], float | None]:
    """The counts of a step of a `Router`, and the share of dropped choices where it says that."""
    module = s.module
    assert isinstance(module, Router)
    k = module.top_k
    n = counts(2 * s.x, k)
    if module.returns == "dispatch":
        taken = kept(2 * s.x, k, module.capacity)
        return taken, 1 - sum(taken) / sum(n)
    if module.returns == "mask":
        return n, 1 - sum(kept(2 * s.x, k, module.capacity)) / sum(n)
    return n, None


def load(s: Seen) -> dict[str, object]:
    """Shares, imbalance, the share of tokens at the busiest expert, and the dropped share."""
    n, dropped = of_step(s)
    share = torch.tensor(n, dtype=torch.float64) / sum(n)
    tokens = s.x.numel() // s.x.shape[-1]
    found = {"": share, "imbalance": max(n) * len(n) / sum(n), "busiest": max(n) / tokens}
    return found if dropped is None else {**found, "dropped": dropped}


def load_entropy(s: Seen) -> float:
    """The entropy of the load."""
    n = [c / sum(of_step(s)[0]) for c in of_step(s)[0]]
    found = -math.fsum(f * math.log(f) for f in n if f)
    return found / math.log(len(n)) if s.options.get("normalized") else found


def dead(s: Seen) -> float:
    """The share of experts without a choice in the window."""
    n = [sum(of) for of in zip(*(of_step(step)[0] for step in s.window), strict=True)]
    return n.count(0) / len(n)
