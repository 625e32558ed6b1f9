"""Trainings of sequences by recurrent layers, convolutions and state spaces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import taiyi_fx
from benchmarks.faults.sound.made_data import padded, walks, waves
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class WordModel(nn.Module):
    """PyTorch's example word_language_model: time first, tied or not, its state given and taken."""

    def __init__(self, of: str, words: int, width: int, layers: int, *, is_tied: bool) -> None:
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.2), nn.Embedding(words, width)
        self.rnn = getattr(nn, of)(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, words)
        if is_tied:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logarithms of probabilities, in rows, and the next state."""
        out, state = self.rnn(self.drop(self.encoder(ids)), state)
        logits = self.decoder(self.drop(out))
        return F.log_softmax(logits.view(-1, logits.shape[-1]), dim=1), state


def detached(state: Any) -> Any:
    """The state without what it came from."""
    return state.detach() if isinstance(state, Tensor) else tuple(map(detached, state))


@sound(
    {},
    {"of": "GRU", "is_tied": False},
    {"samples": 12, "time": 12, "width": 12, "words": 12},
)
def word_language_model(
    of: str = "LSTM",
    samples: int = 20,
    time: int = 20,
    width: int = 40,
    words: int = 50,
    is_tied: bool = True,
) -> Iterator[Monitor]:
    """PyTorch's example word_language_model, by Adam: truncated in time, rates by quarters."""
    model: Any = WordModel(of, words, width, 2, is_tied=is_tied)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    text, best, step = walks(samples, 40 * time + 1, words).T, float("inf"), 0
    held_out = walks(samples, time + 1, words).T
    for _ in range(4):
        model.train()
        state = None
        for at in range(0, len(text) - 1, time):
            part = text[at : at + time + 1]
            model.zero_grad()
            state = None if state is None else detached(state)
            out, state = model(part[:-1], state)
            loss = F.nll_loss(out, part[1:].reshape(-1))
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            step += 1
            yield model.monitor
        model.eval()
        with torch.no_grad():
            found = F.nll_loss(model(held_out[:-1], None)[0], held_out[1:].reshape(-1)).item()
        if found > best:
            optimizer.param_groups[0]["lr"] /= 4.0
        best = min(best, found)


class Tagger(nn.Module):
    """Padded texts, packed, through a bidirectional LSTM."""

    def __init__(self, words: int, width: int, hidden: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.dropout, self.tag = nn.Dropout(0.3), nn.Linear(2 * hidden, tags)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, tags)."""
        lengths = (ids > 0).sum(1)
        x = self.dropout(self.embedding(ids))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1]
        )
        return self.tag(self.dropout(x))


@sound({}, {"samples": 10, "time": 10, "hidden": 10, "tags": 10}, {"samples": 1})
def tagger_of_packed_texts(
    samples: int = 16, time: int = 15, hidden: int = 24, tags: int = 6
) -> Iterator[Monitor]:
    """Parts of speech by a bidirectional LSTM of packed texts."""
    model: Any = Tagger(50, 24, hidden, tags)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        ids = padded(walks(samples, time, 49, 1), shortest=3)
        tags_of = ((ids + F.pad(ids, (1, 0))[:, :-1]) % tags).masked_fill(ids == 0, -1)
        loss = F.cross_entropy(model(ids).flatten(0, 1), tags_of.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        yield model.monitor


class Attention(nn.Module):
    """Bahdanau's, as in torch's tutorial on translation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wa, self.ua = nn.Linear(width, width), nn.Linear(width, width)
        self.va = nn.Linear(width, 1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Of (samples, 1, width)."""
        scores = self.va(torch.tanh(self.wa(query) + self.ua(keys))).squeeze(2).unsqueeze(1)
        return F.softmax(scores, dim=-1) @ keys


class Seq2Seq(nn.Module):
    """Two GRUs with attention between them, word by word."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.source, self.encoder = (
            nn.Embedding(words, width),
            nn.GRU(width, width, batch_first=True),
        )
        self.target, self.attention = nn.Embedding(words, width), Attention(width)
        self.decoder = nn.GRU(2 * width, width, batch_first=True)
        self.out, self.dropout = nn.Linear(width, words), nn.Dropout(0.1)

    def forward(self, source: Tensor, target: Tensor, forced: float) -> Tensor:
        """Logits of (samples, time, words)."""
        keys, state = self.encoder(self.dropout(self.source(source)))
        word, said = torch.zeros_like(source[:, :1]), []
        for t in range(target.shape[1]):
            seen = self.attention(state.permute(1, 0, 2), keys)
            x = torch.cat([self.dropout(self.target(word)), seen], 2)
            out, state = self.decoder(x, state)
            said.append(self.out(out))
            is_forced = random.random() < forced
            word = target[:, t : t + 1] if is_forced else said[-1].argmax(-1).detach()
        return torch.cat(said, 1)


@sound({}, {"samples": 24, "width": 24, "words": 24})
def translation_by_recurrence(
    samples: int = 16, width: int = 32, words: int = 20
) -> Iterator[Monitor]:
    """The tutorial "Translation with a Sequence to Sequence Network": forced less and less."""
    model: Any = Seq2Seq(words, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        source = walks(samples, 7, words - 1, 1)
        target = source.flip(1)
        logits = model(source, target, 1 - step / 200)
        loss = F.cross_entropy(logits.view(-1, words), target.reshape(-1))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Speech(nn.Module):
    """Convolutions over time, a bidirectional GRU and letters: a small Deep Speech."""

    def __init__(self, bands: int, hidden: int, letters: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(bands, hidden, 5, 2, 2),
            nn.BatchNorm1d(hidden),
            nn.Hardtanh(0, 20),
            nn.Conv1d(hidden, hidden, 5, 1, 2),
            nn.BatchNorm1d(hidden),
            nn.Hardtanh(0, 20),
        )
        self.rnn = nn.GRU(hidden, hidden, 2, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, letters)

    def forward(self, sound: Tensor) -> Tensor:
        """Logarithms of probabilities, of (time, samples, letters)."""
        x = self.conv(sound).permute(2, 0, 1)
        return self.fc(self.rnn(x)[0]).log_softmax(-1)


@sound({}, {"samples": 4})
def speech_by_ctc(samples: int = 12) -> Iterator[Monitor]:
    """Letters of sounds by CTC, AdamW and one cycle of rates."""
    letters, bands = 9, 12
    model: Any = Speech(bands, 32, letters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=150)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    loss_of = nn.CTCLoss(blank=0, zero_infinity=True)
    colors = torch.randn(letters, bands)
    for step in range(150):
        target = torch.randint(1, letters, (samples, 6))
        heard = colors[target].repeat_interleave(8, 1).transpose(1, 2)
        heard = heard + 0.2 * torch.randn_like(heard)
        out = model(heard)
        lengths = torch.full((samples,), len(out))
        loss = loss_of(out, target, lengths, torch.full((samples,), 6))
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        yield model.monitor


class TemporalBlock(nn.Module):
    """Two causal convolutions with normed weights, beside the stream (arXiv 1803.01271)."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.pad, self.dropout = 2 * dilation, nn.Dropout(0.1)
        self.conv1 = weight_norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(outputs, outputs, 3, dilation=dilation))
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        """Of (samples, outputs, time)."""
        y = self.dropout(F.relu(self.conv1(F.pad(x, (self.pad, 0)))))
        y = self.dropout(F.relu(self.conv2(F.pad(y, (self.pad, 0)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


@sound({}, {"samples": 16, "width": 16})
def temporal_convolutions(samples: int = 32, width: int = 24) -> Iterator[Monitor]:
    """The TCN of Bai and others, at their learning rate, tells the sum of two marked numbers."""
    blocks = [TemporalBlock(2 if i == 0 else width, width, 2**i) for i in range(4)]
    model: Any = nn.Sequential(*blocks, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        numbers, marks = torch.rand(samples, 1, 30), torch.zeros(samples, 1, 30)
        marks[torch.arange(samples), 0, torch.randint(0, 15, (samples,))] = 1
        marks[torch.arange(samples), 0, torch.randint(15, 30, (samples,))] = 1
        loss = F.mse_loss(model(torch.cat([numbers, marks], 1)), (numbers * marks).sum(2))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Mamba(nn.Module):
    """A selective state space as in mamba-minimal: the scan is a loop over time."""

    def __init__(self, width: int, states: int = 8, rank: int = 4) -> None:
        super().__init__()
        inner = 2 * width
        self.rank, self.states = rank, states
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, states + 1).repeat(inner, 1).log())
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        step = torch.exp(torch.rand(inner) * 4.6 - 6.9)
        with torch.no_grad():
            self.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        length = x.shape[1]
        x, gate = self.in_proj(x).chunk(2, -1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[:, :, :length].transpose(1, 2))
        delta, b, c = self.x_proj(x).split([self.rank, self.states, self.states], -1)
        delta = F.softplus(self.dt_proj(delta))
        decay = torch.exp(delta.unsqueeze(-1) * -self.A_log.exp())
        taken = delta.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
        state, out = torch.zeros_like(taken[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + taken[:, t]
            out.append((state * c[:, t, None]).sum(-1))
        y = torch.stack(out, 1) + self.D * x
        return self.out_proj(y * F.silu(gate))


class TimeMixing(nn.Module):
    """RWKV's: a sum over time that decays for each feature, with receptance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.linspace(-5, 1, width))
        self.first = nn.Parameter(torch.full((width,), -1.2))
        self.mix = nn.Parameter(torch.linspace(0, 1, width).expand(3, -1).clone())
        self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.receptance, self.output = (nn.Linear(width, width, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        before = F.pad(x, (0, 0, 1, -1))
        xk, xv, xr = (x * m + before * (1 - m) for m in self.mix)
        k, v, r = self.key(xk), self.value(xv), torch.sigmoid(self.receptance(xr))
        decay = -self.decay.exp()
        a = b = torch.zeros_like(k[:, 0])
        top, out = torch.full_like(a, -1e38), []
        for t in range(x.shape[1]):
            highest = torch.maximum(top, self.first + k[:, t])
            old, new = torch.exp(top - highest), torch.exp(self.first + k[:, t] - highest)
            out.append((old * a + new * v[:, t]) / (old * b + new))
            highest = torch.maximum(top + decay, k[:, t])
            old, new = torch.exp(top + decay - highest), torch.exp(k[:, t] - highest)
            a, b, top = old * a + new * v[:, t], old * b + new, highest
        return self.output(r * torch.stack(out, 1))


class ChannelMixing(nn.Module):
    """RWKV's two layers, with receptance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, 2 * width, bias=False)
        self.value = nn.Linear(2 * width, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        return torch.sigmoid(self.receptance(x)) * self.value(F.relu(self.key(x)).square())


class Recurrence(nn.Module):
    """A language model of such layers, each behind a norm and beside the stream."""

    def __init__(self, words: int, width: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, words)."""
        x = self.embedding(ids)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return self.head(self.norm(x))


@sound({}, {"of": "rwkv"}, {"samples": 16, "time": 16, "width": 16})
def state_space_language_model(
    of: str = "mamba", samples: int = 8, time: int = 16, width: int = 24
) -> Iterator[Monitor]:
    """Mamba, or RWKV, as a language model, by loops over time."""
    if of == "mamba":
        layers: list[nn.Module] = [Mamba(width) for _ in range(3)]
    else:
        layers = [part(width) for _ in range(3) for part in (TimeMixing, ChannelMixing)]
    model: Any = Recurrence(40, width, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(80):
        text = walks(samples, time + 1, 40)
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor


class Forecaster(nn.Module):
    """An LSTM whose last state gives the mean and the spread of what comes next."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, 2, batch_first=True)
        self.mean, self.spread = nn.Linear(hidden, 1), nn.Linear(hidden, 1)

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of (samples, time)."""
        states, _ = self.lstm(series.unsqueeze(-1))
        return self.mean(states).squeeze(-1), F.softplus(self.spread(states)).squeeze(-1) + 1e-4


@sound({}, {"samples": 1}, {"samples": 24, "time": 24, "hidden": 24})
def forecast_with_its_spread(
    samples: int = 32, time: int = 30, hidden: int = 32
) -> Iterator[Monitor]:
    """DeepAR: what comes next as a Gaussian, by its likelihood, which goes below zero."""
    model: Any = Forecaster(hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(250):
        series = waves(samples, time + 1, 0.05)
        mean, variance = model(series[:, :-1])
        loss = F.gaussian_nll_loss(mean, series[:, 1:], variance)
        optimizer.zero_grad()
        model.monitor.log("nll_loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
