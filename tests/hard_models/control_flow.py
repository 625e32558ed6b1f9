"""Control flow and randomness."""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.hard_models.case import (
    D,
    TwoLayers,
    block,
    case,
    linear,
)


@case("a branch on data")
class BranchOnData(TwoLayers):
    def forward(self, x):
        return self.first(x) if x.sum() > 0 else self.last(x)


@case("a branch on shape")
class BranchOnShape(TwoLayers):
    def forward(self, x):
        return self.first(x) if len(x) % 2 else self.last(x)


@case("a loop whose length depends on data")
class LoopOnData(TwoLayers):
    def forward(self, x):
        times = 0
        while times < 2 + int(x[0, 0] > 0):
            x = torch.tanh(self.first(x))
            times += 1
        return self.last(x)


@case("an assertion and a try")
class Tries(TwoLayers):
    def forward(self, x):
        assert x.shape[-1] == D, "wrong width"
        try:
            x = self.first(x[:, : D + 1] if x.dim() == 2 else x[0])
            x = self.first(x[:, :1])
        except RuntimeError:
            x = self.last(x)
        return x


@case("random numbers from torch")
class TorchRandom(TwoLayers):
    def forward(self, x):
        x = x + torch.randn_like(x) + torch.rand(D)
        return super().forward(F.dropout(x, 0.5, self.training))


@case("random numbers from Python")
class PythonRandom(TwoLayers):
    def forward(self, x):
        return super().forward(x) * random.random()


@case("random numbers from NumPy")
class NumpyRandom(TwoLayers):
    def forward(self, x):
        return super().forward(x) * float(np.random.rand())


class MaybeSkipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = block()

    def forward(self, x):
        return x if self.training and random.random() < 0.5 else x + self.block(x)


@case("stochastic depth")
def stochastic_depth():
    return nn.Sequential(linear(), *(MaybeSkipped() for _ in range(4)))
