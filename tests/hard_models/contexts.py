"""Contexts."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.hard_models.case import (
    D,
    TwoLayers,
    block,
    case,
    linear,
)


@case("a part under no_grad")
class UnderNoGrad(TwoLayers):
    def forward(self, x):
        with torch.no_grad():
            teacher = self.first(x)
        return self.last(x) * teacher


@case("a forward decorated with no_grad")
class DecoratedNoGrad(TwoLayers):
    @torch.no_grad()
    def target(self, x):
        return self.first(x)

    def forward(self, x):
        return self.last(x) - self.target(x)


@case("parts under inference_mode")
class UnderInference(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.last = nn.Sequential(nn.Linear(D, D), nn.ReLU()), nn.Linear(D, D)
        self.encoder.requires_grad_(False)

    def forward(self, x):
        with torch.inference_mode():
            teacher = self.encoder[0](self.encoder(x))
        return self.last(teacher.clone())


@case("autocast to bfloat16")
class UnderAutocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.norm = block(), nn.LayerNorm(D)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.block(x)
        return self.norm(y.float())


@case("a checkpoint that is not reentrant")
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.head = linear(), block(), linear()

    def forward(self, x):
        return self.head(checkpoint(self.body, self.stem(x), use_reentrant=False))


@case("a reentrant checkpoint")
class CheckpointedReentrant(Checkpointed):
    def forward(self, x):
        return self.head(checkpoint(self.body, self.stem(x), use_reentrant=True))


@case("a checkpoint with random numbers")
class CheckpointedDropout(Checkpointed):
    def __init__(self):
        super().__init__()
        self.body.append(nn.Dropout(0.5))
