"""In place, views and inputs handed through."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from tests.hard_models.case import (
    D,
    block,
    case,
    linear,
    sequences,
)


@case("everything in place")
class InPlaceEverywhere(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = linear(), nn.BatchNorm1d(D), linear()
        self.act, self.dropout = nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)

    def forward(self, x):
        y = self.norm(self.first(x))
        y += x
        y = self.dropout(y)
        y[:, 0] = 1.0
        y[:, 1] *= 2
        z = self.last(self.act(y))
        z.add_(x).mul_(0.5)
        return F.leaky_relu_(z)


@case("in place on views", sequences)
class InPlaceOnViews(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.flatten, self.act = linear(), nn.Flatten(), nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.fc(x)
        flat = self.flatten(y)
        first = y[:, 0]
        first += 1
        y.transpose(1, 2)[..., 1].zero_()
        self.act(flat)
        return y


@case("in place after a Dropout that does nothing")
class InPlaceAfterNothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.nothing = linear(), nn.Dropout(0.0)
        self.flatten, self.act = nn.Flatten(), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.flatten(self.nothing(self.fc(x))))


@case("in place after an Identity")
class InPlaceAfterIdentity(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.identity, self.last = linear(), nn.Identity(), linear()

    def forward(self, x):
        y = self.identity(self.fc(x))
        y += x
        y[:, 0] = 0
        return self.last(y)


@case("an Identity beside its input")
class IdentityBesideInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.identity = linear(), nn.Identity()

    def forward(self, x):
        x = self.fc(x)
        return self.identity(x) * 2 + x


@case("skip connections that change in place")
class ResidualInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([block() for _ in range(3)])

    def forward(self, x):
        for part in self.blocks:
            residual = x
            x = part(x)
            x += residual
        return x
