"""Faults of shapes and axes: queries that are taken for keys, samples for tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def heads(attention: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of (batch, 4, tokens, features)."""
    n, tokens, width = x.shape
    q, k, v = attention.qkv(x).view(n, tokens, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
    return q, k, v


def attend_anew(t: Training, forward: Any) -> None:
    """Gives all attentions of a GPT another forward, of the module and its input."""
    for block in t.model.get_submodule("layers").children():
        change_class(block.get_submodule("attn"), lambda m, _, x: forward(m, x))


@fault("gpt", "layers.*.attn*", WHOLE, kinds="attention|mix|loss|plateau|slow")
def heads_joined_by_a_view(t: Training) -> None:
    """Joins the heads by a view, without the transpose that belongs before it."""

    def forward(attention: Any, x: Tensor) -> Tensor:
        q, k, v = heads(attention, x)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=attention.scale)
        return attention.proj(mixed.reshape(x.shape))

    attend_anew(t, forward)
    t.steps = 200


@fault("gpt", "layers.*.attn*", WHOLE, kinds="attention|softmax|axis|leak|loss|future|ahead")
def softmax_over_queries(t: Training) -> None:
    """Takes the softmax over the axis of queries, so that keys have shares and queries do not."""

    def forward(attention: Any, x: Tensor) -> Tensor:
        q, k, v = heads(attention, x)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        logits = (q @ k.mT * attention.scale).masked_fill(future, -1e9)
        mixed = logits.softmax(-2) @ v
        return attention.proj(mixed.transpose(1, 2).flatten(2))

    attend_anew(t, forward)


@fault("gpt", "places", WHOLE, kinds="embedding|position|unused|update|gradient|loss")
def positions_along_the_batch(t: Training) -> None:
    """Adds the embedding of a position by the number of the sample, not of the token."""

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        x = model.words(ids) + model.places(torch.arange(len(ids))).unsqueeze(1)
        for layer in model.layers:
            x = layer(x)
        return model.head(model.norm(x))

    change_class(t.model, forward)


class Packed(nn.Module):
    """A classifier of rows of tokens by two convolutions over time and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 16)
        self.first = nn.Conv1d(16, 32, 3, padding=1)
        self.second = nn.Conv1d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        x = self.words(ids).mT
        return self.head(self.second(self.first(x).relu()).relu().mean(2))


@fault("lstm", WHOLE, "first", "words", kinds="loss|plateau|axis|mix|shape|slow|overfit")
def channels_made_by_a_view(t: Training) -> None:
    """Brings features before time for a convolution by a view, which mixes the two."""
    convolutions_over_time(t)

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        x = model.words(ids).view(len(ids), 16, -1)
        return model.head(model.second(model.first(x).relu()).relu().mean(2))

    change_class(t.model, forward)


def convolutions_over_time(t: Training) -> None:
    """Trains a network of convolutions to count: which of four groups of tokens is there most."""
    t.model = Packed()
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=3e-3)

    def count(step: int, ids: Tensor, _: Tensor) -> Batch:
        return ids, F.one_hot(ids % 4, 4).sum(1).argmax(1)

    t.change_batch(count)
