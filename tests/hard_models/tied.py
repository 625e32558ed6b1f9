"""Parts that are tied, exchanged, or used in other ways than by a call."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hard_models.case import (
    D,
    TwoLayers,
    block,
    case,
    linear,
    tokens,
)


@case("a part replaced in __init__")
class Replaced(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(linear(), nn.Tanh())
        self.first[1] = nn.ReLU()


@case("a part registered again under another name")
class RegisteredAgain(TwoLayers):
    def __init__(self):
        super().__init__()
        moved = self.first
        del self.first
        self.register_module("moved", moved)
        self.register_module("nothing", None)

    def forward(self, x):
        return self.last(self.moved(x)) if self.nothing is None else x


@case("tied weights", tokens)
class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.decoder = nn.Embedding(10, D), nn.Linear(D, 10, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, x):
        return self.decoder(self.embedding(x))


@case("one module under two names")
class TwoNames(TwoLayers):
    def __init__(self):
        super().__init__()
        self.again = self.first

    def forward(self, x):
        return self.last(self.again(torch.tanh(self.first(x))))


@case("a block called three times")
class CalledOften(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = block()

    def forward(self, x):
        return self.block(self.block(self.block(x)) + x)


@case("weights read by the parent")
class WeightsRead(TwoLayers):
    def forward(self, x):
        return F.linear(self.first(x), self.last.weight.t(), self.last.bias) + self.first.weight[0]


@case("a child's forward called directly")
class ForwardDirectly(TwoLayers):
    def forward(self, x):
        return self.last(self.first.forward(x))


@case("children iterated over")
class Iterated(TwoLayers):
    def forward(self, x):
        for child in self.children():
            x = child(x)
        for name, child in self.named_children():
            x = child(x) * len(name)
        for module in self.modules():
            if module is not self:
                x = module(x)
        return x


@case("classes of parts tested")
class Tested(TwoLayers):
    def forward(self, x):
        for child in self.children():
            x = child(x) if isinstance(child, nn.Linear) else x * 0
        for child in self.children():
            x = child(x) if type(child) is nn.Linear else x * 0
        return x if type(self.first) == type(self.last) else x * 0  # noqa: E721


@case("its own class asked for by name")
class OwnClassName(TwoLayers):
    def forward(self, x):
        scale = 2.0 if type(self).__name__ == "OwnClassName" else 3.0
        return super().forward(x) * scale


@case("its exact class tested")
class OwnExactClass(TwoLayers):
    def forward(self, x):
        return super().forward(x) * (2.0 if type(self) is OwnExactClass else 3.0)


@case("recursion")
class Recursive(TwoLayers):
    def forward(self, x, depth=3):
        return x if depth == 0 else self(torch.tanh(self.first(x)), depth - 1)
