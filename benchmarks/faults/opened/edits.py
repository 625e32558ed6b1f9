"""Edits that several of these faults make: between stages, of attentions, of whole models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.training import Losses, Training

NEIGHBOURS = ("{stage}*", "{next}*")
"""The stages before and behind a function that `put` has put between them."""


def seeded(step: int) -> torch.Generator:
    """A generator of the step's own seed."""
    return torch.Generator().manual_seed(step)


def put(t: Training, change: Callable[[int, Tensor], Tensor]) -> None:
    """Has a function of the step and the output take the place behind the stage."""
    now, number = [0], int(t.names["stage"].rpartition(".")[2])
    t.before_step.append(lambda step: now.__setitem__(0, step))
    t.model.between = lambda i, x: change(now[0], x) if i == number else x  # pyright: ignore


def anew(t: Training, model: nn.Module, backward: Losses | None = None, rate: float = 1e-3) -> None:
    """Trains another model by Adam."""
    t.model, t.backward = model, backward or t.backward
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    t.optimizer = torch.optim.Adam(trained, lr=rate)


def train_before(t: Training, steps: int) -> None:
    """Trains for some steps without being watched."""
    for step in range(steps):
        t.backward(t.model, *t.batch(10_000 + step))
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.optimizer.state.clear()


def split(attention: nn.Module, x: Tensor) -> Tensor:
    """Queries, keys and values of four heads, stacked, of (3, batch, heads, tokens, width)."""
    n, s, c = x.shape
    qkv = attention.get_submodule("qkv")
    return qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)


def join(attention: nn.Module, heads: Tensor) -> Tensor:
    """Rows of the outputs of all heads, through the last layer of an attention."""
    return attention.get_submodule("proj")(heads.transpose(1, 2).flatten(2))


def attend(t: Training, name: str, weigh: Callable[[Tensor], Tensor]) -> None:
    """Has a function make the weights of an attention of its scaled logits, mask and all."""

    def forward(self, old, x: Tensor) -> Tensor:
        q, k, v = split(self, x)
        return join(self, weigh(q @ k.mT * self.scale) @ v)

    change_class(t.model.get_submodule(name), forward)


def attentions(t: Training) -> list[str]:
    """Names of all attentions of a GPT."""
    return [f"layers.{i}.attn" for i in range(4)]


def past(logits: Tensor) -> Tensor:
    """True where a key is not later than the query."""
    return torch.ones_like(logits, dtype=torch.bool).tril()
