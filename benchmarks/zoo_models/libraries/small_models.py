"""Small models of our own around parts of libraries that are no models themselves."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RotaryAttention(nn.Module):
    """Attention with rotary positions, of rotary-embedding-torch."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        from rotary_embedding_torch import RotaryEmbedding

        self.heads = heads
        self.rotary = RotaryEmbedding(dim=dim // heads // 2)
        self.project = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Attends over ``(samples, time, dim)``."""
        n, time, _ = x.shape
        parts = self.project(x).view(n, time, 3, self.heads, -1).unbind(2)
        queries, keys, values = (part.transpose(1, 2) for part in parts)
        queries = self.rotary.rotate_queries_or_keys(queries)
        keys = self.rotary.rotate_queries_or_keys(keys)
        weights = torch.softmax(queries @ keys.transpose(-2, -1), dim=-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))
