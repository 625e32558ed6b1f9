"""Trainings of torch's own transformer layers, as its tutorials and many papers use them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Positions(nn.Module):
    """Sines and cosines that are added, then dropout, as in torch's tutorial."""

    def __init__(self, width: int, dropout: float = 0.1, longest: int = 64) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        place = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        """Of (time, samples, width)."""
        return self.dropout(x + self.get_buffer("table")[: len(x)])


class LanguageModel(nn.Module):
    """torch's tutorial: an encoder with a causal mask, time first."""

    def __init__(self, words: int, width: int, heads: int, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.encoder = nn.Embedding(words, width)
        self.positions = Positions(width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.2)
        self.transformer = nn.TransformerEncoder(layer, layers)
        self.decoder = nn.Linear(width, words)
        for weight in (self.encoder.weight, self.decoder.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (time, samples, words)."""
        x = self.positions(self.encoder(ids) * math.sqrt(self.width))
        mask = nn.Transformer.generate_square_subsequent_mask(len(ids))
        return self.decoder(self.transformer(x, mask))


@sound({}, {"heads": 8, "samples": 8, "width": 64}, {"samples": 16, "time": 16, "width": 16})
def tutorial_language_model(
    samples: int = 20, time: int = 24, width: int = 32, heads: int = 2
) -> Iterator[Monitor]:
    """The tutorial "Language modeling with nn.Transformer": SGD, clipped, evaluated between."""
    words = 60
    model: Any = LanguageModel(words, width, heads)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    text = walks(samples, 20 * time + 1, words).T
    held_out = walks(samples, time + 1, words).T
    for epoch in range(6):
        model.train()
        for at in range(0, len(text) - 1, time):
            part = text[at : at + time + 1]
            logits = model(part[:-1])
            loss = F.cross_entropy(logits.view(-1, words), part[1:].reshape(-1))
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(epoch * 20 + at // time)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            yield model.monitor
        model.eval()
        with torch.no_grad():
            model(held_out[:-1])
        scheduler.step()


def walks(samples: int, length: int, words: int) -> Tensor:
    """Rows of words of which each is one of three that may follow the one before it."""
    steps = torch.tensor([1, 1, 1, 2, 2, 5])[torch.randint(6, (samples, length))]
    return (torch.randint(words, (samples, 1)) + steps.cumsum(1)) % words
