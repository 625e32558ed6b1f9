"""Five models in plain torch, small in width and whole in structure, for their pictures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet50(nn.Module):
    """He et al., 2016 (arXiv:1512.03385), an eighth as wide."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._layer(width, width, 3, 1)
        self.layer2 = self._layer(4 * width, 2 * width, 4, 2)
        self.layer3 = self._layer(8 * width, 4 * width, 6, 2)
        self.layer4 = self._layer(16 * width, 8 * width, 3, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(32 * width, classes)

    @staticmethod
    def _layer(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
        first = Bottleneck(inputs, width, stride)
        return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(1, blocks)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer's block, normalised before each part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """A language model of 12 blocks."""

    def __init__(
        self, words: int = 50, length: int = 32, width: int = 32, blocks: int = 12
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, 4) for _ in range(blocks))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words)
        self.register_buffer("pos", torch.arange(length))

    def forward(self, x: Tensor) -> Tensor:
        x = self.wte(x) + self.wpe(self.pos)
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions, each normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Ronneberger et al., 2015 (arXiv:1505.04597): down, up, and across."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32, 64)) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(map(double, (3, *widths[:-1]), widths))
        self.middle = double(widths[-1], 2 * widths[-1])
        up = widths[::-1]
        self.lift = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in up)
        self.up = nn.ModuleList(double(2 * width, width) for width in up)
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        across = []
        for down in self.down:
            across.append(down(x))
            x = self.pool(across[-1])
        x = self.middle(x)
        for lift, up in zip(self.lift, self.up, strict=True):
            x = up(torch.cat([across.pop(), lift(x)], 1))
        return self.out(x)


class Expert(nn.Module):
    """One of several that a router chooses from."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(width, 2 * width), nn.ReLU()
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Mixture(nn.Module):
    """Experts weighted by a router; the two with the largest weights count."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.router(x).softmax(-1)
        least = weights.topk(2, -1).values[..., -1:]
        chosen = torch.where(weights >= least, weights, 0.0)
        made = torch.stack([expert(x) for expert in self.experts], -1)
        return (made * chosen.unsqueeze(-2)).sum(-1)


class MixtureBlock(nn.Module):
    """A transformer's block with a mixture of experts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, 4)
        self.norm2, self.moe = nn.LayerNorm(width), Mixture(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.moe(self.norm2(x))


class MoE(nn.Module):
    """A language model of mixtures of experts."""

    def __init__(self, words: int = 50, width: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(MixtureBlock(width) for _ in range(blocks))
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class LSTM(nn.Module):
    """A recurrent classifier of sequences."""

    def __init__(self, words: int = 50, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, 2 * width, 2, batch_first=True)
        self.norm, self.drop = nn.LayerNorm(2 * width), nn.Dropout(0.2)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.embed(x))
        return self.head(self.drop(self.norm(states[:, -1])))
