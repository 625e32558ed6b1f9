"""A language model of two layers, and its loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.own.training import Batches, Figure


class Layer(nn.Module):
    """A layer of an encoder, norms first.

    Args:
        attention: Its attention.
    """

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attn = attention
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.ffn = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class Causal(nn.Module):
    """Causal attention of one head.

    Args:
        masked: Whether later tokens are hidden.
    """

    def __init__(self, *, masked: bool = True) -> None:
        super().__init__()
        self.masked = masked
        self.key, self.query = nn.Linear(32, 32, bias=False), nn.Linear(32, 32, bias=False)
        self.value = nn.Linear(32, 32)
        self.register_buffer("tril", torch.tril(torch.ones(32, 32)))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        n = x.size(1)
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * 32**-0.5
        if self.masked:
            wei = wei.masked_fill(self.get_buffer("tril")[:n, :n] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class BabyGPT(nn.Module):
    """A language model of two layers.

    Args:
        attention: Makes that of a layer.
    """

    def __init__(self, attention: Callable[[], nn.Module] = Causal) -> None:
        super().__init__()
        layers = [Layer(attention()) for _ in range(2)]
        self.tok, self.pos = nn.Embedding(128, 32), nn.Embedding(32, 32)
        self.layers = nn.ModuleList(layers)
        self.ln_f, self.lm_head = nn.LayerNorm(32), nn.Linear(32, 128, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, 128)."""
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


def of_tokens(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss of all tokens."""
    return F.cross_entropy(net(x).flatten(0, -2), y.flatten())


def of_the_last(fresh: Batches) -> Figure:
    """The loss of the last token, which alone counts when text is generated."""

    def figure(net: nn.Module) -> float:
        x, y = (torch.cat(parts) for parts in zip(*map(fresh, range(900, 916)), strict=True))
        with torch.no_grad():
            return float(F.cross_entropy(net(x)[:, -1], y[:, -1]))

    return figure
