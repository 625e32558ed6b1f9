"""Models of everything that breaks probes and traces: blocks, and chains of them.

A block takes a batch of sequences of `D` features, (batch, length, D), and gives one of that shape.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

D = 6
"""The number of features that every block takes and gives."""


class Residual(nn.Module):
    """A normalised layer whose input is added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(self.norm(x))
        y += x
        return y


class InPlace(nn.Module):
    """A batch norm, then an activation in place, over transposed features."""

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.act = nn.BatchNorm1d(D), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(x.transpose(1, 2))).transpose(1, 2)


class Convolution(nn.Module):
    """A one-dimensional convolution and a function in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(D, D, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu_(self.conv(x.transpose(1, 2))).transpose(1, 2)


class Image(nn.Module):
    """A convolution, a batch norm and an activation in place, over images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.bn(self.conv(x.unsqueeze(1))))
        return h.mean(1)


class Recurrent(nn.Module):
    """An LSTM whose states are used beside its output."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(D, D, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, (h, c) = self.lstm(x)
        return y + h[0].unsqueeze(1) * c[0].unsqueeze(1)


class Attention(nn.Module):
    """Torch's own attention, called by keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(query=x, key=x, value=x, need_weights=False)[0]


class Heads(nn.Module):
    """Attention written out, whose queries, keys and values are unpacked from one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, D // 2).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(x.shape))


class Encoder(nn.Module):
    """Torch's own encoder layer, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Tokens(nn.Module):
    """An embedding of indices that are made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, D)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.embedding((x[..., 0].abs() * 10).long() % 5)


class Dropouts(nn.Module):
    """Dropout as a module and as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout, self.p = nn.Dropout(0.3), 0.2

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.dropout(x), self.p, self.training)


class OnlyInTraining(nn.Module):
    """A layer that only training calls."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = self.fc(x)
        return x * 2


class Shared(nn.Module):
    """One layer under two names, called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(D, D)
        self.again = self.fc

    def forward(self, x: Tensor) -> Tensor:
        return self.again(torch.tanh(self.fc(x))) + self.fc(x)


class Branch(nn.Module):
    """A branch on data: its forward stays Python."""

    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.yes(x) if x.mean() > 0 else self.no(x)


class WithoutGradient(nn.Module):
    """A layer called under ``torch.no_grad()``: its forward stays Python."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = self.inner(x).std()
        return self.outer(x) / (1 + scale)


class Keywords(nn.Module):
    """A part that takes keywords alone and returns a dictionary."""

    class Part(nn.Module):
        """Takes keywords alone."""

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(D, D)

        def forward(self, *, scale: float, x: Tensor) -> dict[str, Any]:
            return {"x": self.fc(x) * scale, "rest": (x,)}

    def __init__(self) -> None:
        super().__init__()
        self.part = self.Part()

    def forward(self, x: Tensor) -> Tensor:
        found = self.part(x=x, scale=2.0)
        return found["x"] - found["rest"][0]


class Views(nn.Module):
    """A view that is changed in place beside its base."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.flat = nn.Linear(D, D), nn.Flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        return F.relu_(self.flat(y)).view(x.shape) + y


class Counted(nn.Module):
    """A buffer that each forward changes."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(D, D)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(1)
        return self.fc(x) / self.steps


BLOCKS: tuple[type[nn.Module], ...] = (
    Residual, InPlace, Convolution, Image, Recurrent, Attention, Heads, Encoder, Tokens, Dropouts,
    OnlyInTraining, Shared, Branch, WithoutGradient, Keywords, Views, Counted,
)  # fmt: skip
"""All blocks there are."""

_BY_NAME = {block.__name__: block for block in BLOCKS}


class Chain(nn.Module):
    """Blocks in a row, some nested, with an output that is a tensor, a tuple or a dictionary.

    Args:
        *blocks: The blocks, or the names of their classes.
        output: The kind of result: the last block's output, alone or beside the first's.
    """

    def __init__(
        self, *blocks: nn.Module | str, output: Literal["tensor", "tuple", "dict"] = "tensor"
    ) -> None:
        super().__init__()
        made = [_BY_NAME[block]() if isinstance(block, str) else block for block in blocks]
        self.stem = nn.Linear(D, D)
        self.first = nn.Sequential(*made[:1])
        self.rest = nn.ModuleList(made[1:])
        self.output = output

    def forward(self, x: Tensor) -> Any:
        """The blocks' outputs, in the form asked for."""
        first = x = self.first(self.stem(x))
        for block in self.rest:
            x = block(x)
        if self.output == "tuple":
            return x, first
        return {"x": x, "first": first} if self.output == "dict" else x
