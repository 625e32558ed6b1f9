"""Attention as users write it, each with its weights' logits and its output of each head."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, LENGTH = 12, 6


class Head(nn.Module):
    """One head without an axis of heads, as in lectures."""

    heads_in_all = 1

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("tril", torch.tril(torch.ones(LENGTH, LENGTH)))

    def logits(self, x: Tensor) -> Tensor:
        """The scores of the heads, masked."""
        made = self.query(x) @ self.key(x).transpose(-2, -1) * WIDTH**-0.5
        return made.masked_fill(self.tril == 0, float("-inf"))

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head: of shape samples, heads, queries and features."""
        return self.forward(x).unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        weights = F.softmax(self.logits(x), dim=-1)
        return self.dropout(weights) @ self.value(x)


class Heads(nn.Module):
    """Several heads, whose module says so, or does not."""

    heads_in_all = 3

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.p, self.parts_of = dropout, 3

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by head."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.split(q), self.split(k), self.split(v)

    def split(self, part: Tensor) -> Tensor:
        """One of these by head."""
        return part.unflatten(-1, (self.parts_of, -1)).transpose(1, 2)

    def logits(self, x: Tensor) -> Tensor:
        """The scores of the heads."""
        q, k, _ = self.parts(x)
        return torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head: of shape samples, heads, queries and features."""
        weights = F.dropout(self.logits(x).softmax(-1), self.p, self.training)
        return weights @ self.parts(x)[2]

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        made = self.outputs(x)
        return self.out(made.transpose(1, 2).flatten(2))


class ByLayers(Heads):
    """By layers for the softmax and the dropout."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.softmax, self.drop = nn.Softmax(dim=-1), nn.Dropout(dropout)

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head."""
        weights = self.drop(self.softmax(self.logits(x)))
        return torch.matmul(weights, self.parts(x)[2])


class ByEinsum(Heads):
    """By einsum, with heads behind queries in the output."""

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head."""
        return self.by_query(x).transpose(1, 2)

    def by_query(self, x: Tensor) -> Tensor:
        """The output, of shape samples, queries, heads and features."""
        q, k, v = self.parts(x)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
        weights = F.dropout(torch.softmax(scores, -1), self.p, self.training)
        return torch.einsum("bhij,bhjd->bihd", weights, v)

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        return self.out(self.by_query(x).flatten(2))


class Folded(Heads):
    """By bmm, where samples and heads are one axis, in another type than the softmax's."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.num_heads = 3

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head."""
        q, k, v = self.parts(x)
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        scores = torch.baddbmm(torch.zeros(1), q, k.mT, beta=0, alpha=1 / math.sqrt(q.shape[-1]))
        weights = scores.double().softmax(-1).to(x.dtype)
        weights = F.dropout(weights, self.p, self.training)
        return torch.bmm(weights, v).unflatten(0, (-1, 3))


class Transposed(Heads):
    """With queries last: values are multiplied from the left."""

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head."""
        weights = F.dropout(self.logits(x).softmax(-1), self.p, self.training)
        return (self.parts(x)[2].mT @ weights.transpose(-2, -1)).mT


class Grouped(Heads):
    """Queries that share a head of keys have an axis of their own; a sink takes some weight."""

    heads_in_all = 4

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.parts_of = self.num_heads = 4

    def outputs(self, x: Tensor) -> Tensor:
        """The output of each head."""
        return self.grouped(x).flatten(1, 2)

    def grouped(self, x: Tensor) -> Tensor:
        """The output, of shape samples, heads of keys, queries of each, length and features."""
        q, k, v = self.parts(x)
        q, k, v = q.unflatten(1, (2, 2)), k.unflatten(1, (2, 2)), v.unflatten(1, (2, 2))
        scores = q @ k[:, :, :1].transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1)
        weights = scores.softmax(-1)[..., :-1]
        return F.dropout(weights, self.p, self.training) @ v[:, :, :1]

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        return self.out(self.grouped(x).flatten(1, 2).transpose(1, 2).flatten(2))


KINDS = (Head, Heads, ByLayers, ByEinsum, Folded, Transposed, Grouped)


def in_python(kind: type[nn.Module]) -> type[nn.Module]:
    """The same class with a forward that stays Python."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        if x.sum() < -1e9:
            raise ValueError
        return kind.forward(self, x)

    return type(f"{kind.__name__}InPython", (kind,), {"forward": forward})


class TwoLayers(nn.Module):
    """Two attentions, one after the other."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(), make()

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        return self.second(x + self.first(x))
