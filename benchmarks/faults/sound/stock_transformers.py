"""Trainings of torch's own transformer layers, as its tutorials and many papers use them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.made_data import padded, walks, waves
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


class Translator(nn.Module):
    """nn.Transformer between embeddings and a last layer, as in torch's tutorial."""

    def __init__(self, words: int, width: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.positions = Positions(width)
        self.transformer = nn.Transformer(width, heads, 2, 2, 2 * width, 0.1)
        self.generator = nn.Linear(width, words)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of (time, samples, words)."""
        x = self.positions(self.source(source) * math.sqrt(self.width))
        y = self.positions(self.target(target) * math.sqrt(self.width))
        ahead = torch.ones(len(target), len(target)).triu(1).bool()
        of_source, of_target = (source == 0).T, (target == 0).T
        x = self.transformer(
            x,
            y,
            tgt_mask=ahead,
            src_key_padding_mask=of_source,
            tgt_key_padding_mask=of_target,
            memory_key_padding_mask=of_source,
        )
        return self.generator(x)


@sound({}, {"samples": 8, "heads": 8, "width": 32})
def tutorial_translation(
    samples: int = 16, width: int = 48, heads: int = 4, words: int = 24
) -> Iterator[Monitor]:
    """The tutorial "Language Translation with nn.Transformer": Adam with betas of its paper."""
    model: Any = Translator(words, width, heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    loss_of = nn.CrossEntropyLoss(ignore_index=0)
    for step in range(100):
        source = padded(walks(samples, 10, words - 3, 3))
        begin, end = torch.full((samples, 1), 1), torch.full((samples, 1), 2)
        target = torch.cat([begin, source, end], 1).T
        logits = model(source.T, target[:-1])
        loss = loss_of(logits.reshape(-1, logits.shape[-1]), target[1:].reshape(-1))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Classifier(nn.Module):
    """An encoder, samples first, and the mean over what is no padding."""

    def __init__(self, words: int, width: int, heads: int, classes: int, *, is_first: bool) -> None:
        super().__init__()
        self.is_first = is_first
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(1, 32, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 3, nn.LayerNorm(width))
        self.head = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, classes)."""
        x, is_padding = self.words(ids), ids == 0
        if self.is_first:
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
            is_padding = F.pad(is_padding, (1, 0))
        x = x + self.places[:, : x.shape[1]]
        x = self.encoder(x, src_key_padding_mask=is_padding)
        if self.is_first:
            return self.head(x[:, 0])
        is_word = (~is_padding).unsqueeze(-1)
        return self.head((x * is_word).sum(1) / is_word.sum(1))


@sound(
    {},
    {"is_first": True},
    {"samples": 12, "time": 12, "width": 12, "heads": 12, "classes": 12},
    {"samples": 1, "steps": 80},
)
def encoder_for_classes(
    samples: int = 32,
    time: int = 16,
    width: int = 32,
    heads: int = 4,
    classes: int = 5,
    steps: int = 150,
    is_first: bool = False,
) -> Iterator[Monitor]:
    """Classes of padded texts by nn.TransformerEncoder, AdamW and one cycle of rates."""
    model: Any = Classifier(50, width, heads, classes, is_first=is_first)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        ids = padded(torch.randint(1, 50, (samples, time)), shortest=4)
        classes_of = ids[:, 1] % classes
        loss = F.cross_entropy(model(ids), classes_of, label_smoothing=0.1)
        model.monitor.log("train_loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        yield model.monitor


class Block(nn.Module):
    """nn.MultiheadAttention, then two layers, each behind a norm."""

    def __init__(self, width: int, heads: int, *, batch_first: bool) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, 0.1, batch_first=batch_first)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor, ahead: Tensor, is_padding: Tensor) -> Tensor:
        """Of the shape of `x`."""
        y = self.before(x)
        y, _ = self.attention(y, y, y, key_padding_mask=is_padding, attn_mask=ahead)
        x = x + y
        return x + self.mlp(self.between(x))


class Decoder(nn.Module):
    """Blocks of nn.MultiheadAttention that see what came before."""

    def __init__(self, words: int, width: int, heads: int, *, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads, batch_first=batch_first) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, words)."""
        length = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(length))
        ahead = torch.full((length, length), float("-inf")).triu(1)
        is_padding = torch.zeros(ids.shape).masked_fill(ids == 0, float("-inf"))
        x = x if self.batch_first else x.transpose(0, 1)
        for block in self.blocks:
            x = block(x, ahead, is_padding)
        x = x if self.batch_first else x.transpose(0, 1)
        return self.head(self.norm(x))


@sound(
    {},
    {"batch_first": False},
    {"samples": 16, "time": 16, "width": 16, "heads": 4, "words": 16},
    {"samples": 8, "time": 7, "width": 64, "heads": 8, "batch_first": False},
)
def decoder_of_multihead_attention(
    samples: int = 16,
    time: int = 20,
    width: int = 32,
    heads: int = 4,
    words: int = 30,
    batch_first: bool = True,
) -> Iterator[Monitor]:
    """A causal language model of nn.MultiheadAttention, with padding, as in many repositories."""
    model: Any = Decoder(words, width, heads, batch_first=batch_first)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        ids = padded(walks(samples, time + 1, words - 1, 1))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], ignore_index=0)
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        warm_up.step()
        optimizer.zero_grad()
        yield model.monitor


class Forecaster(nn.Module):
    """Values, their places and an encoder, whose last state tells what comes."""

    def __init__(self, width: int, ahead: int) -> None:
        super().__init__()
        self.values = nn.Linear(1, width)
        self.positions = Positions(width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, ahead)

    def forward(self, series: Tensor) -> Tensor:
        """Of (samples, ahead)."""
        x = self.positions(self.values(series.T.unsqueeze(-1)))
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        return self.head(self.encoder(x, mask, is_causal=True)[-1])


@sound()
def forecast_by_an_encoder() -> Iterator[Monitor]:
    """The next values of a series by nn.TransformerEncoder, time first, and a squared error."""
    model: Any = Forecaster(32, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    loss_of = nn.MSELoss()
    for step in range(150):
        series = waves(32, 28)
        loss = loss_of(model(series[:, :24]), series[:, 24:])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.7)
        optimizer.step()
        yield model.monitor
