"""Recurrence and state."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.hard_models.case import (
    D,
    TwoLayers,
    case,
    linear,
    sequences,
)


@case("an LSTM", sequences)
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, D, num_layers=2, dropout=0.2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * D, D)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.head(y), h, c


@case("a GRU with its state carried across", sequences)
class GruWithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(D, D, batch_first=True), linear()

    def forward(self, x, h=None):
        outputs = []
        for chunk in x.split(1, dim=1):
            y, h = self.gru(chunk, h)
            outputs.append(self.head(y))
        return torch.cat(outputs, 1), h


@case("a loop over LSTM cells", sequences)
class LstmCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(D, D), linear()

    def forward(self, x):
        h = c = x.new_zeros(len(x), D)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


@case("packed sequences", sequences)
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = linear(), nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        lengths = torch.arange(len(x)) % 3 + 1
        x = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        y, h = self.gru(x)
        assert isinstance(y, PackedSequence)
        return pad_packed_sequence(y, batch_first=True)[0], h


@case("hidden state kept as an attribute")
class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(D, D), None

    def forward(self, x):
        state = torch.zeros_like(x[:2]) if self.state is None else self.state
        y = self.cell(x[:2], state)
        self.state = y.detach()
        return y


@case("buffers replaced in forward")
class BufferReplaced(TwoLayers):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(D))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


@case("a Python counter")
class CountsInPython(TwoLayers):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.first(x) if self.calls % 2 else self.last(x) * self.calls


@case("the parameters' dtype and device asked for")
class AsksForDtype(TwoLayers):
    def forward(self, x):
        parameter = next(self.parameters())
        return super().forward(x.to(parameter.dtype).to(parameter.device))
