"""Layers with inputs of other kinds, and whole architectures."""

from __future__ import annotations

import torch
from torch import nn

from tests.hard_models.case import (
    D,
    block,
    case,
    images,
    linear,
    sequences,
)


@case("an EmbeddingBag", lambda n: ((torch.randint(10, (2 * n,)), torch.arange(0, 2 * n, 2)), {}))
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(10, D, mode="sum"), linear()

    def forward(self, indices, offsets):
        return self.head(self.bag(indices, offsets))


@case("a Bilinear layer", lambda n: ((torch.randn(n, D), torch.randn(n, 3)), {}))
class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear, self.head = nn.Bilinear(D, 3, D), linear()

    def forward(self, x, y):
        return self.head(self.bilinear(x, y))


@case("attention", sequences)
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        y, weights = self.attention(x, x, x, average_attn_weights=False)
        return x + y, weights


@case("attention with a causal mask of the length that flows in", sequences)
class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        _, t, _ = x.shape
        q, k, v = self.qkv(x).split(D, dim=-1)
        mask = torch.ones(t, t, device=x.device).tril() == 0
        scores = (q @ k.transpose(-2, -1)).masked_fill(mask, -1e9)
        return self.out(scores.softmax(-1) @ v)


@case("a Transformer", lambda n: ((torch.randn(n, 3, D), torch.randn(n, 2, D)), {}))
def transformer():
    return nn.Transformer(D, 2, 1, 1, 8, dropout=0.1, batch_first=True)


@case("nested module containers")
class NestedContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleDict(
            {"a": nn.ModuleList([linear(), block()]), "b": nn.ModuleDict({"c": nn.ModuleList()})}
        )
        self.stages["b"]["c"].append(linear())

    def forward(self, x):
        for stage in self.stages["a"]:
            x = stage(x)
        return self.stages["b"]["c"][0](x)


@case("a UNet", images)
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([self.stage(2, 4, 2), self.stage(4, 8, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(8, 4, 2, 2), nn.ConvTranspose2d(8, 2, 2, 2)])

    @staticmethod
    def stage(inner, outer, stride):
        conv = nn.Conv2d(inner, outer, 3, stride, padding=1)
        return nn.Sequential(conv, nn.BatchNorm2d(outer), nn.ReLU(inplace=True))

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        x = self.up[0](skips.pop())
        return self.up[1](torch.cat([x, skips.pop()], 1))


@case("no parameters")
class NoParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Softmax(-1), nn.AvgPool1d(2))

    def forward(self, x):
        return self.parts(x)


@case("an empty batch", lambda n: ((torch.randn(0, D),), {}))
def empty_batch():
    return nn.Sequential(linear(), nn.LayerNorm(D), nn.ReLU(inplace=True), linear())


@case("frozen parts")
class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.backbone, self.head = linear(), block(), linear()
        self.stem.requires_grad_(False)
        self.backbone.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone(self.stem(x)).detach())


class Nest(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.fc = linear() if depth % 50 == 0 else nn.Tanh()
        self.inner = Nest(depth - 1) if depth else nn.Identity()

    def forward(self, x):
        return self.inner(self.fc(x))


@case("modules nested 150 deep")
def nested_150():
    return Nest(150)


def chain(count):
    return nn.Sequential(*(nn.ReLU() if i % 2 else nn.LayerNorm(D) for i in range(count)))


@case("three hundred modules")
def three_hundred():
    return chain(300)
