"""Signatures."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.hard_models.case import (
    D,
    TwoLayers,
    case,
    linear,
)


@case(
    "starred arguments", lambda n: ((torch.randn(n, D), torch.randn(n, D)), {"z": torch.ones(n, D)})
)
class Starred(TwoLayers):
    def forward(self, *args, **kwargs):
        return sum(self.first(a) for a in args) + sum(self.last(v) for v in kwargs.values())


@case("keyword-only arguments", lambda n: ((), {"x": torch.randn(n, D), "scale": 2.0}))
class KeywordOnly(TwoLayers):
    def forward(self, *, x, scale=1.0, mask=None):
        x = self.first(input=x)
        return self.last(input=x if mask is None else x * mask) * scale


@case("no arguments", lambda n: ((), {}))
class NoArguments(TwoLayers):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(2, D))

    def forward(self):
        return super().forward(self.query)


@case("None as an argument", lambda n: ((None, torch.randn(n, D)), {"mask": None}))
class NoneArguments(TwoLayers):
    def forward(self, state, x, mask=None):
        state = torch.zeros_like(x) if state is None else state
        return super().forward(x + state)


@case("a list of tensors", lambda n: (([torch.randn(n, D), torch.randn(n, D)],), {}))
class ListArgument(TwoLayers):
    def forward(self, xs):
        return [self.first(x) for x in xs] + [self.last(torch.stack(xs).sum(0))]


@case(
    "nested dictionaries of tensors",
    lambda n: (({"text": {"x": torch.randn(n, D)}, "meta": [{"scale": 2.0}]},), {}),
)
class NestedArgument(TwoLayers):
    def forward(self, batch):
        y = super().forward(batch["text"]["x"]) * batch["meta"][0]["scale"]
        return {"out": {"y": y, "both": (y, y.detach())}}


class ChangesArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, batch):
        batch["y"] = self.fc(batch.pop("x"))


@case("a part that changes its argument")
class ArgumentChanged(TwoLayers):
    def __init__(self):
        super().__init__()
        self.part = ChangesArgument()

    def forward(self, x):
        batch = {"x": self.first(x)}
        self.part(batch)
        return self.last(batch["y"])


@dataclass
class Output:
    hidden: Tensor
    logits: Tensor
    loss: Tensor | None = None


class GivesDataclass(TwoLayers):
    def forward(self, x):
        hidden = self.first(x)
        return Output(hidden, logits=self.last(hidden))


@case("a dataclass as output")
class DataclassOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = GivesDataclass()

    def forward(self, x):
        found = self.part(x)
        return Output(found.hidden, found.logits, found.logits.square().mean())


class ModelOutput(OrderedDict):
    """Answers by key, by attribute and by position."""

    def __init__(self, **tensors: Any) -> None:
        super().__init__({k: v for k, v in tensors.items() if v is not None})

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


class GivesModelOutput(TwoLayers):
    def forward(self, x):
        hidden = self.first(x)
        return ModelOutput(hidden=hidden, logits=self.last(hidden), attentions=None)


@case("a dictionary's subclass as output")
class ModelOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = GivesModelOutput()

    def forward(self, x):
        found = self.part(x)
        return ModelOutput(logits=found.logits * 2 + found[0], hidden=found["hidden"])


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


@case("a named tuple as output")
class NamedTupleOutput(TwoLayers):
    def forward(self, x):
        return Pair(left=self.first(x), right=self.last(x))


class GivesTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, x):
        y = self.fc(x)
        return y, y


@case("the same tensor twice in a tuple")
class SameTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = GivesTwice()

    def forward(self, x):
        a, b = self.part(x)
        return a + 2 * b if a is b else a - b


@case("outputs that are no tensors")
class MixedOutput(TwoLayers):
    def forward(self, x):
        y = super().forward(x)
        return y, None, y.shape[1], "text", {"classes": D}


@case("a scalar as output")
class ScalarOutput(TwoLayers):
    def __init__(self):
        super().__init__()
        self.loss = nn.MSELoss()

    def forward(self, x):
        return self.loss(super().forward(x), x)


class GivesParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, D))

    def forward(self):
        return self.token


@case("an output that is a parameter")
class ParameterOutput(TwoLayers):
    def __init__(self):
        super().__init__()
        self.token = GivesParameter()

    def forward(self, x):
        token = self.token()
        return super().forward(torch.cat([x, token])) if isinstance(token, nn.Parameter) else x
