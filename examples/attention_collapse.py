"""A tiny GPT whose third attention multiplies by the size of a head: find it.

It should divide by the root of that size. Its queries look at one key each, and the loss falls as
if nothing were wrong. Asks for no quantity: the preset of transformers reads a few queries of each
attention.
"""

from __future__ import annotations

import math
import warnings
from pydoc_data import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx

STEPS, BATCH, LENGTH, WIDTH, HEADS = 120, 8, 32, 64, 4


class Attention(nn.Module):
    """Causal attention.

    Args:
        scale: The factor of the logits.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    """A block of a transformer, norms first."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH), Attention(scale)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder of four blocks for letters; the scale is that of the third block's attention."""

    def __init__(self, words: int, scale: float) -> None:
        super().__init__()
        right = (WIDTH // HEADS) ** -0.5
        self.words, self.places = nn.Embedding(words, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.Sequential(*(Block(scale if i == 2 else right) for i in range(4)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, words)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.h(x)))


def main(steps: int = STEPS, *, is_right: bool = False) -> list[taiyi_fx.Finding]:
    """Trains, prints what was found, and returns it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = torch.tensor([*"\n".join(topics.topics.values()).encode("ascii", "replace")])
    size = WIDTH // HEADS
    model = GPT(128, 1 / math.sqrt(size) if is_right else size)  # the slip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    warnings.simplefilter("ignore")  # it is told at its step, too
    for step in range(steps):
        seen = text[torch.randint(len(text) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)]
        loss = F.cross_entropy(watched(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    print(watched.monitor.findings)
    return watched.monitor.findings


if __name__ == "__main__":
    main()
