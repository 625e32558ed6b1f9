"""Parts that are held in other ways than as attributes."""

from __future__ import annotations

import functools
import types
import weakref
from collections import UserList, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tests.hard_models.case import (
    D,
    Noisy,
    TwoLayers,
    case,
    linear,
)


class TwoNoisyLayers(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = Noisy(D, D)


@case("modules in a plain list")
class InList(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = [self.first, self.last]

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


@case("parts with dots in their names")
class Dotted(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self._modules["first.b"] = nn.Sequential(linear(), nn.Sequential(linear(), nn.ReLU()))

    def forward(self, x):
        return self.last(self._modules["first.b"](self.first(x)))


@case("modules in a plain list only")
class OnlyInList(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = [linear(), nn.BatchNorm1d(D)]

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return super().forward(x)


@case("modules in a plain dict")
class InDict(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = {"first": self.first, "last": self.last}

    def forward(self, x):
        return self.parts["last"](self.parts["first"](x))


@case("modules in nested containers")
class InNested(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = ({"stages": [(self.first, torch.tanh)]}, [self.last])

    def forward(self, x):
        stages, (last,) = self.parts
        for module, act in stages["stages"]:
            x = act(module(x))
        return last(x)


@case("modules in a deque")
class InDeque(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = deque([self.first, self.last])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


@case("modules in a defaultdict")
class InDefaultDict(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = defaultdict(list)
        self.parts["all"] += [self.first, self.last]

    def forward(self, x):
        for part in self.parts["all"]:
            x = part(x)
        return x


@case("modules in a namespace")
class InNamespace(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = types.SimpleNamespace(first=self.first, last=self.last)

    def forward(self, x):
        return self.parts.last(self.parts.first(x))


@case("modules in a list's subclass")
class InUserList(TwoNoisyLayers):
    class Stages(list):
        def run(self, x):
            for part in self:
                x = part(x)
            return x

    def __init__(self):
        super().__init__()
        self.parts = self.Stages([self.first, self.last])

    def forward(self, x):
        return self.parts.run(x)


@case("modules in a UserList")
class InWrappedList(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = UserList([self.first, self.last])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Stage(NamedTuple):
    module: nn.Module
    scale: float


@case("modules in a named tuple")
class InNamedTuple(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.parts = [Stage(self.first, 2.0), Stage(self.last, 0.5)]

    def forward(self, x):
        for stage in self.parts:
            x = stage.module(x) * stage.scale
        return x


@dataclass
class Stages:
    modules: list[nn.Module] = field(default_factory=list)

    def run(self, x: Tensor) -> Tensor:
        for module in self.modules:
            x = module(x)
        return x


@case("modules in a dataclass")
class InDataclass(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.stages = Stages([self.first, self.last])

    def forward(self, x):
        return self.stages.run(x)


class Engine:
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def run(self, x: Tensor) -> Tensor:
        return self.model.last(self.model.first(x))


@case("an object that holds the model")
class InObject(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.engine = Engine(self)

    def forward(self, x):
        return self.engine.run(x)


@case("a dictionary keyed by modules")
class KeyedByModules(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.scales = {self.first: 2.0, self.last: 0.5}

    def forward(self, x):
        for part, scale in self.scales.items():
            x = part(x) * scale
        return x


@case("a dictionary keyed by modules, looked up")
class LookedUpByModules(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.scales = {self.first: 2.0, self.last: 0.5}

    def forward(self, x):
        for part in (self.first, self.last):
            x = part(x) * self.scales[part]
        return x


@case("a bound method of a part")
class BoundMethod(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.run_first = self.first.forward

    def forward(self, x):
        return self.last(self.run_first(x))


@case("a bound method of its own")
class BoundHelper(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.act = self.helper
        self.offset = 1.0

    def helper(self, x):
        return torch.tanh(self.first(x)) + self.offset

    def forward(self, x):
        return self.last(self.act(x))


@case("a part called through __call__ bound")
class BoundCall(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.run_first = self.first.__call__

    def forward(self, x):
        return self.last(self.run_first(x))


@case("partials of modules")
class Partials(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.scaled = functools.partial(self.scale, self.first, factor=2.0)
        self.run_last = functools.partial(self.last)

    @staticmethod
    def scale(module, x, factor):
        return module(x) * factor

    def forward(self, x):
        return self.run_last(self.scaled(x))


@case("a lambda over a part")
class LambdaOverPart(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        dropout = self.dropout = nn.Dropout(0.5)
        self.act = lambda x: torch.relu(dropout(x))

    def forward(self, x):
        return self.last(self.act(self.first(x)))


@case("a lambda over the model")
class LambdaOverSelf(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.act = lambda x: torch.relu(self.first(x))

    def forward(self, x):
        return self.last(self.act(x))


def compose(*steps: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def composed(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return composed


@case("a closure over a tuple of parts")
class ClosureOverParts(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.run = compose(self.first, torch.tanh, self.last)

    def forward(self, x):
        return self.run(x)


class ChildOfWeakParent(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.fc, self.parent = linear(), weakref.ref(parent)

    def forward(self, x):
        return self.fc(x) * self.parent().scale


@case("a weak reference to the parent")
class WeakParent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0
        self.child = ChildOfWeakParent(self)

    def forward(self, x):
        return self.child(x)


class ChildOfListedParent(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.parent = [parent]

    def forward(self, x):
        return self.parent[0].last(x)


@case("a reference to the parent in a list")
class ListedParent(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.child = ChildOfListedParent(self)

    def forward(self, x):
        return self.child(self.first(x))


class ChildOfHiddenParent(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "parent", parent)

    def forward(self, x):
        return self.parent.last(x)


@case("a reference to the parent past torch")
class HiddenParent(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.child = ChildOfHiddenParent(self)

    def forward(self, x):
        return self.child(self.first(x))


@case("a container that holds itself")
class Cyclic(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.info = {"parts": [self.first]}
        self.info["self"] = self.info

    def forward(self, x):
        return self.last(self.info["self"]["parts"][0](x))
