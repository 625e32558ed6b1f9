"""Models to fuzz with: chains of everything that breaks probes and traces."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

D = 6


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, x):
        y = self.fc(self.norm(x))
        y += x
        return y


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn, self.act = nn.BatchNorm1d(D), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.bn(x.transpose(1, 2))).transpose(1, 2)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(D, D, 3, padding=1)

    def forward(self, x):
        return F.relu_(self.conv(x.transpose(1, 2))).transpose(1, 2)


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.act(self.bn(self.conv(x.unsqueeze(1))))
        return h.mean(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, D, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y + h[0].unsqueeze(1) * c[0].unsqueeze(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=True)

    def forward(self, x):
        return x + self.attention(query=x, key=x, value=x, need_weights=False)[0]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, D)

    def forward(self, x):
        return x + self.embedding((x[..., 0].abs() * 10).long() % 5)


class Dropouts(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout, self.p = nn.Dropout(0.3), 0.2

    def forward(self, x):
        return F.dropout(self.dropout(x), self.p, self.training)


class OnlyInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, D)

    def forward(self, x):
        if self.training:
            x = self.fc(x)
        return x * 2


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, D)
        self.again = self.fc

    def forward(self, x):
        return self.again(torch.tanh(self.fc(x))) + self.fc(x)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.yes, self.no = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        return self.yes(x) if x.mean() > 0 else self.no(x)


class WithoutGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        with torch.no_grad():
            scale = self.inner(x).std()
        return self.outer(x) / (1 + scale)


class Keywords(nn.Module):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(D, D)

        def forward(self, *, scale, x):
            return {"x": self.fc(x) * scale, "rest": (x,)}

    def __init__(self):
        super().__init__()
        self.part = self.Part()

    def forward(self, x):
        found = self.part(x=x, scale=2.0)
        return found["x"] - found["rest"][0]


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.flat = nn.Linear(D, D), nn.Flatten(1)

    def forward(self, x):
        y = self.fc(x)
        return F.relu_(self.flat(y)).view(x.shape) + y


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, D)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1)
        return self.fc(x) / self.steps


BLOCKS = (
    Residual, InPlace, Convolution, Image, Recurrent, Attention, Encoder, Tokens, Dropouts,
    OnlyInTraining, Shared, Branch, WithoutGradient, Keywords, Views, Counted,
)  # fmt: skip


class Chain(nn.Module):
    """Blocks in a row, some nested, with an output that is a tensor, a tuple or a dictionary."""

    def __init__(self, blocks, output):
        super().__init__()
        self.stem = nn.Linear(D, D)
        self.first = nn.Sequential(*blocks[:1])
        self.rest = nn.ModuleList(blocks[1:])
        self.output = output

    def forward(self, x):
        first = x = self.first(self.stem(x))
        for block in self.rest:
            x = block(x)
        if self.output == "tuple":
            return x, first
        return {"x": x, "first": first} if self.output == "dict" else x


def total(output):
    """A loss of any output."""
    parts = output.values() if isinstance(output, dict) else output
    return sum(t.square().mean() for t in ((output,) if torch.is_tensor(output) else parts))


@dataclass
class Case:
    model: nn.Module
    batches: list[torch.Tensor]

    def __repr__(self):
        return f"{self.model}\nbatches of {[len(b) for b in self.batches]}"

    def twin(self):
        return copy.deepcopy(self.model)


@st.composite
def cases(draw, blocks=BLOCKS):
    """A model, and batches of different sizes for it."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    chosen = draw(st.lists(st.sampled_from(blocks), min_size=1, max_size=4))
    model = Chain([block() for block in chosen], draw(st.sampled_from(["tensor", "tuple", "dict"])))
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=3, unique=True))
    return Case(model, [torch.randn(n, 4, D) for n in sizes])
