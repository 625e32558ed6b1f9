"""Faults of language models: what they may see, what they are to say, and what does not count."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.axes import attend_anew, heads
from benchmarks.faults.training import Training, cross_entropy

PAD, END = 0, 3


def _masked(attention: Any, x: Tensor, mask: Tensor) -> Tensor:
    """Attention with a mask that is added to its logits."""
    q, k, v = heads(attention, x)
    mixed = (q @ k.mT * attention.scale + mask).softmax(-1) @ v
    return attention.proj(mixed.transpose(1, 2).flatten(2))


def _future(tokens: int, diagonal: int = 1) -> Tensor:
    return torch.full((tokens, tokens), -1e9).triu(diagonal)


@fault("gpt", "*attn*", WHOLE, kinds="attention|mask|causal|leak|future|ahead|loss")
def mask_that_is_not_passed(t: Training) -> None:
    """Makes the causal mask, and does not pass it on."""
    attend_anew(t, lambda m, x: _masked(m, x, torch.zeros(())))
    t.steps = 200


@fault("gpt", "*attn*", WHOLE, kinds="attention|mask|causal|leak|future|ahead|loss")
def the_other_triangle(t: Training) -> None:
    """Masks the past, and leaves the future."""
    attend_anew(t, lambda m, x: _masked(m, x, _future(x.shape[1]).T))


@fault("gpt", "*attn*", WHOLE, kinds="attention|entropy|scale|uniform|logit|loss|slow")
def logits_divided_twice(t: Training) -> None:
    """Divides the logits of attention by the width of the model, and not by a root of a head's."""
    for block in t.model.get_submodule("layers").children():
        attention: Any = block.get_submodule("attn")
        attention.scale = 1 / attention.proj.in_features


def padded_text(t: Training) -> None:
    """Trains a GPT on short lines that are padded behind their ends, which do not count."""

    def shorten(step: int, ids: Tensor, y: Tensor) -> Batch:
        generator = torch.Generator().manual_seed(step)
        lengths = torch.randint(4, 16, (len(ids), 1), generator=generator)
        place = torch.arange(ids.shape[1])
        whole = torch.cat([ids, y[:, -1:]], 1)[:, : ids.shape[1]]
        whole = torch.where(place == lengths, END, whole).where(place <= lengths, PAD)
        return whole[:, :-1], whole[:, 1:]

    t.change_batch(shorten)
    t.backward = _without_padding


def _without_padding(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model, ids, y, ignore_index=PAD)


@fault("gpt", WHOLE, "head", kinds="loss|pad|ignore|token|easy|low|constant|class|imbalance")
def padding_that_counts(t: Training) -> None:
    """Takes the mean over all tokens, most of which are padding."""
    padded_text(t)
    t.backward = cross_entropy


@fault("gpt", "*attn*", WHOLE, kinds="nan|finite|attention|mask|softmax|inf")
def rows_that_are_masked_whole(t: Training) -> None:
    """Masks queries that are padding, whose softmax is then over nothing."""
    padded_text(t)

    def forward(model: Any, old: Any, ids: Tensor) -> Tensor:
        model.padded = (ids == PAD)[:, None, :, None]
        return old(ids)

    def attend(attention: Any, x: Tensor) -> Tensor:
        q, k, v = heads(attention, x)
        logits = q @ k.mT * attention.scale + _future(x.shape[1])
        mixed = logits.masked_fill(t.model.padded, -math.inf).softmax(-1) @ v
        return attention.proj(mixed.transpose(1, 2).flatten(2))

    attend_anew(t, attend)
    change_class(t.model, forward)


@fault("gpt gpt-tied", WHOLE, kinds="loss|label|shift|leak|copy|easy|low|identity|target")
def labels_not_shifted_by_one(t: Training) -> None:
    """Trains on the input itself, since another model's loss would have shifted it."""
    t.change_batch(lambda step, ids, y: (ids, ids))


class Translator(nn.Module):
    """An encoder of a sequence, and a decoder that says it again from its end."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(17, 32)
        self.encoder = nn.GRU(32, 64, batch_first=True)
        self.decoder = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, 17)

    def forward(self, pair: Tensor) -> Tensor:
        """Logits of (batch, tokens, 17) of sources and what the decoder is fed, side by side."""
        source, fed = pair.chunk(2, 1)
        _, state = self.encoder(self.words(source))
        return self.head(self.decoder(self.words(fed), state)[0])


def translation(t: Training) -> None:
    """Trains a network to turn sequences round, fed with the token before."""
    t.model = Translator()
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=3e-3)

    def turn(step: int, ids: Tensor, _: Tensor) -> Batch:
        target = ids.flip(1)
        before = torch.cat([torch.full_like(ids[:, :1], 16), target[:, :-1]], 1)
        return torch.cat([ids, before], 1), target

    t.change_batch(turn)


@fault("lstm", WHOLE, "encoder", kinds="loss|leak|easy|low|unused|gradient|vanish|copy|target")
def decoder_fed_with_its_answers(t: Training) -> None:
    """Feeds the decoder with the token that it is to say, and not with the one before."""
    translation(t)
    t.change_batch(lambda step, pair, y: (torch.cat([pair[:, :8], y], 1), y))


class Reader(nn.Module):
    """Attention among tokens, of which the padding is masked, and the mean of all that are real."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(17, 32)
        self.qkv, self.proj, self.head = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 4)
        self.is_masking = True

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        x, real = self.words(ids), (ids != 16) if self.is_masking else (ids >= 0)
        q, k, v = self.qkv(x).chunk(3, -1)
        logits = (q @ k.mT / 32**0.5).masked_fill(~real.unsqueeze(1), -1e9)
        x = (x + self.proj(F.softmax(logits, -1) @ v)) * real.unsqueeze(-1)
        return self.head(x.sum(1) / real.sum(1, keepdim=True))


def reading(t: Training) -> None:
    """Trains attention to count in sequences that are mostly padding."""
    t.model = Reader()
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=3e-3)

    def pad(step: int, ids: Tensor, y: Tensor) -> Batch:
        generator = torch.Generator().manual_seed(step)
        lengths = torch.randint(1, 9, (len(ids), 1), generator=generator)
        y = F.one_hot(ids % 4, 4).mul((torch.arange(8) < lengths).unsqueeze(2)).sum(1).argmax(1)
        filled = torch.cat([ids, ids.new_full((len(ids), 56), 16)], 1)
        return filled.where(torch.arange(64) < lengths, 16), y

    t.change_batch(pad)


@fault("lstm", WHOLE, "words", "qkv", kinds="attention|pad|mask|entropy|loss|slow|uniform")
def padding_that_is_looked_at(t: Training) -> None:
    """Initialises the mask of a padded sequence with ones, and never sets the padding to zero."""
    reading(t)
    model: Any = t.model
    model.is_masking = False
