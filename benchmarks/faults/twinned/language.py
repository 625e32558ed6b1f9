"""Faults of language models: which tokens count, which come next, and where they are.

Threads: mlfoundations/open_lm#4, huggingface/trl#1623, huggingface/open-r1#517.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.twin import Loss, seeded, set_up

_END, _PAD = 0, -100


class Attention(nn.Module):
    """Causal attention of four heads, whose queries and keys are turned by their places.

    Args:
        width: Of its rows.
        axis: Of (batch, places, heads, features), the one along which places are counted.
    """

    def __init__(self, width: int, axis: int) -> None:
        super().__init__()
        self.qkv, self.proj, self.axis = nn.Linear(width, 3 * width), nn.Linear(width, width), axis

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).unbind(2)
        q, k = self._turned(q).transpose(1, 2), self._turned(k).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True)
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def _turned(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        places = torch.arange(x.shape[self.axis]).float()
        angles = places.unsqueeze(1) * 100.0 ** (-torch.arange(half) / half)
        if self.axis == 1:
            angles = angles.unsqueeze(1)
        a, b = x[..., :half], x[..., half:]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Block(nn.Module):
    """Attention and a feed, each with a norm before it."""

    def __init__(self, width: int, axis: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, axis)
        self.norm2, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        x = x + self.attn(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Speaker(nn.Module):
    """A small language model.

    Args:
        words: How many tokens there are.
        axis: See `Attention`.
    """

    def __init__(self, words: int = 128, axis: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 32)
        self.blocks = nn.ModuleList(Block(32, axis) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, words, bias=False)
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, words)."""
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _next(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(ids).flatten(0, 1), y.flatten(), ignore_index=_PAD)


@fault("gpt", "blocks.*attn*", WHOLE, kinds="position|rotary|attention|loss|plateau|axis")
def places_counted_over_heads(t: Training, *, is_mended: bool = False) -> Loss:
    """Turns queries and keys by the number of their head, and not by that of their token."""

    def before(step: int) -> Batch:
        ids = torch.randint(32, (16, 24), generator=seeded(step))
        return ids, ids.roll(3, 1).index_fill(1, torch.arange(3), _PAD)

    return set_up(t, Speaker(32, axis=1 if is_mended else 2), before, _next, steps=250)


@fault("gpt", WHOLE, kinds="copy|copied|trivial|label|shift|leak|loss|target")
def labels_shifted_the_wrong_way(t: Training, *, is_mended: bool = False) -> Loss:
    """Compares what is said at a token with the token before it."""

    def loss(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        said = model(ids)
        if is_mended:
            said, wanted = said[:, :-1], ids[:, 1:]
        else:
            said, wanted = said[:, 1:], ids[:, :-1]
        return F.cross_entropy(said.flatten(0, 1), wanted.flatten())

    return set_up(t, Speaker(), data.text, loss, _next)


def _answers(step: int) -> Batch:
    """Twelve random tokens, an equals sign, and the same in descending order."""
    ids = torch.randint(3, 20, (16, 8), generator=seeded(step))
    told = ids.sort(1, descending=True).values
    text = torch.cat([ids, torch.full((16, 1), 1), told], 1)
    return text[:, :-1], text[:, 1:]


@fault("gpt", WHOLE, kinds="loss|label|mask|plateau|target|ignore")
def questions_learned_and_answers_masked(t: Training, *, is_mended: bool = False) -> Loss:
    """Masks the labels of answers, which were to be learned, and not those of questions."""
    is_answer = torch.arange(16) >= 8

    def masked(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        return _next(model, ids, y.where(is_answer if is_mended else ~is_answer, _PAD))

    def judge(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        return _next(model, ids, y.where(is_answer, _PAD))

    return set_up(t, Speaker(20), _answers, masked, judge, steps=250)


@fault("gpt", WHOLE, "head", kinds="loss|label|mask|pad|end|token|class|ignore")
def end_that_is_masked_as_padding(t: Training, *, is_mended: bool = False) -> Loss:
    """Pads with the token of the end, and masks all of these, the one that ends a text too."""

    def lines(step: int) -> Batch:
        generator = seeded(step)
        length = torch.randint(5, 20, (16, 1), generator=generator)
        ids = (torch.randint(1, 8, (16, 1), generator=generator) + torch.arange(24)) % 7 + 1
        ids = ids.where(torch.arange(24) < length, _END)
        ids[:, 0] = length.squeeze(1) + 8
        return ids[:, :-1], ids[:, 1:]

    def judge(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        return _next(model, ids, y.where((y != _END) | (ids != _END), _PAD))

    def loss(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        return judge(model, ids, y) if is_mended else _next(model, ids, y.where(y != _END, _PAD))

    return set_up(t, Speaker(32), lines, loss, judge)
