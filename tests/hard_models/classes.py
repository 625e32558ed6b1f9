"""Classes that do what nn.Module does in their own way."""

from __future__ import annotations

import abc
import copy
import functools
from collections import OrderedDict
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from tests.hard_models.case import (
    D,
    TwoLayers,
    case,
    linear,
)


class ScalesItsCalls(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


@case("a __call__ of its own")
class CustomCall(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = ScalesItsCalls(D, D)

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) + 1


@case("a __getattr__ that asks a wrapped model")
class Forwarding(nn.Module):
    def __init__(self):
        super().__init__()
        self.wrapped = TwoLayers()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped"), name)

    def forward(self, x):
        return self.last(self.first(x))


@case("modules behind properties")
class Properties(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([linear(), linear()])

    @property
    def head(self):
        return self.blocks[-1]

    @functools.cached_property
    def stem(self):
        return self.blocks[0]

    def forward(self, x):
        return self.head(self.stem(x))


@case("slots")
class Slots(TwoLayers):
    __slots__ = ("scale",)

    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return super().forward(x) * self.scale


class Registering(type):
    """A metaclass that builds, finishes and counts its instances."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.finished = True
        return made


@case("a metaclass")
class WithMetaclass(TwoLayers, metaclass=Registering):
    def forward(self, x):
        return super().forward(x) * (2 if self.finished else 1)


class Strict(type):
    """A metaclass that asks something of each class."""

    def __new__(mcs, name, bases, body):
        if "forward" not in body or "version" not in body:
            raise TypeError(f"{name} needs a forward and a version")
        return super().__new__(mcs, name, bases, body)


@case("a metaclass that refuses subclasses")
class WithStrictMetaclass(nn.Module, metaclass=Strict):
    version = 1

    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, x):
        return self.fc(x)


@case("a class that refuses subclasses")
class Final(TwoLayers):
    def __init_subclass__(cls):
        raise TypeError("Final is final")


class Encoder(nn.Module, abc.ABC):
    @abc.abstractmethod
    def encode(self, x):
        """What the subclass says."""

    def forward(self, x):
        return torch.tanh(self.encode(x))


@case("an abstract base class")
class Abstract(Encoder):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def encode(self, x):
        return self.fc(x)


T = TypeVar("T")


class GenericPart(nn.Module, Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        super().__init__()
        self.fc, self.kind = linear(), kind

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.kind(2)


@case("a generic class")
def generic():
    return GenericPart[float](float)


@case("overridden methods of nn.Module")
class Overriding(TwoLayers):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(D)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def eval(self):
        return super().eval()

    def to(self, *args, **kwargs):
        return super().to(*args, **kwargs)

    def parameters(self, recurse=True):
        return iter([*self.last.parameters()])

    def state_dict(self, *args, **kwargs):
        return {k: v for k, v in super().state_dict(*args, **kwargs).items() if "last" in k}

    def __repr__(self):
        return f"Overriding({self.norm.num_features})"

    def forward(self, x):
        return super().forward(self.norm(x))


@case("a __setattr__ of its own")
class SetsInItsOwnWay(TwoLayers):
    def __setattr__(self, name, value):
        if name == "scale":
            value = 2 * value
        super().__setattr__(name, value)

    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return super().forward(x) * self.scale


@case("a __deepcopy__ of its own")
class CopiesInItsOwnWay(TwoLayers):
    def __deepcopy__(self, memo):
        made = type(self)()
        made.load_state_dict(copy.deepcopy(self.state_dict(), memo))
        return made


class Truthless(nn.Linear):
    """Has a length of zero, as a container may."""

    def __len__(self):
        return 0

    def __bool__(self):
        return False


@case("a part that is false")
class FalsePart(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = Truthless(D, D)


class EqualToAll(nn.Linear):
    def __eq__(self, other):
        return isinstance(other, EqualToAll)

    def __hash__(self):
        return 1


@case("parts that are equal")
class EqualParts(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first, self.last = EqualToAll(D, D), EqualToAll(D, D)


class LowRank(nn.Linear):
    def __init__(self, features, rank, *, alpha=1.0):
        super().__init__(features, features)
        self.down, self.up = nn.Linear(features, rank), nn.Linear(rank, features)
        self.alpha = alpha

    def forward(self, x):
        return super().forward(x) + self.up(self.down(x)) * self.alpha


@case("a subclass of Linear with parts")
class Adapted(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = LowRank(D, 2, alpha=0.5)


class Reversed(nn.Sequential):
    def forward(self, x):
        for module in reversed(self):
            x = module(x)
        return x


@case("a Sequential with a forward of its own")
def reversed_sequential():
    return Reversed(nn.Linear(D, 2), nn.Tanh(), linear())


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph, self.code, self.meta = {"a": 1.0}, 2.0, "meta"
        self.monitor = nn.ModuleList([linear()])
        self.capture, self.recompile = linear(), nn.Tanh()

    def forward(self, x):
        x = self.recompile(self.capture(x)) * self.code + self.graph["a"]
        return self.monitor[0](x) if self.meta == "meta" else x


@case("attributes called as a graph module's")
def named():
    return Named()


@case("a part with attributes called as a graph module's")
def named_part():
    return nn.Sequential(Named(), nn.Tanh())


ODD_NAMES = (
    "with space",
    'double"quote',
    "single'quote",
    "back\\slash",
    "new\nline",
    "größe",
    "层",
    "class",
    "self",
    "graph",
    "monitor",
    "code",
    "capture",
    "0",
    "a@1",
    "x*",
    "[a]",
    "{b}",
    "%s",
    "-",
    "__dunder__",
    "_args",
    "output",
    "None",
    "torch",
)


@case("module names with odd characters")
class OddNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict()
        for name in ODD_NAMES:
            self.parts.add_module(name, nn.Sequential(OrderedDict([(name, linear())])))

    def forward(self, x):
        for part in self.parts.values():
            x = part(x)
        return x
