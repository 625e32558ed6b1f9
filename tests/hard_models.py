"""Small models, each with one thing that real code does and that is hard for a compiler."""

from __future__ import annotations

import abc
import copy
import functools
import itertools
import random
import types
import warnings
import weakref
from collections import OrderedDict, UserList, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

D = 4
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A model to build, with random weights, and the arguments of a batch of n samples."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Arguments]

    def __repr__(self) -> str:
        return self.name


_CASES: list[Case] = []


def cases() -> list[Case]:
    """All of them."""
    return list(_CASES)


def rows(n: int) -> Arguments:
    return (torch.randn(n, D),), {}


def sequences(n: int) -> Arguments:
    return (torch.randn(n, 3, D),), {}


def images(n: int) -> Arguments:
    return (torch.randn(n, 2, 8, 8),), {}


def tokens(n: int) -> Arguments:
    return (torch.randint(10, (n, 3)),), {}


def case(name: str, inputs: Callable[[int], Arguments] = rows) -> Callable[[Any], Any]:
    """Adds a class of models, or a function that builds one."""

    def add(build: Any) -> Any:
        _CASES.append(Case(f"hard/{name}", build, inputs))
        return build

    return add


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives that torch would rather see replaced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def linear() -> nn.Linear:
    return nn.Linear(D, D)


def block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, D), nn.ReLU(inplace=True), nn.Linear(D, D))


class TwoLayers(nn.Module):
    """What many models below start from."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = linear(), linear()

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.first(x)))


# Parts that are held in other ways than as attributes.


class Noisy(nn.Linear):
    """A layer that shows in what mode it is."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


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


_REGISTRY: dict[int, nn.Module] = {}
_NUMBERS = itertools.count()


class InRegistry(TwoNoisyLayers):
    def __init__(self):
        super().__init__()
        self.number = next(_NUMBERS)
        _REGISTRY[self.number] = self.first

    def forward(self, x):
        return self.last(_REGISTRY[self.number](x))


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


# Parts that are tied, exchanged, or used in other ways than by a call.


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


# Signatures.


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


# Recurrence and state.


@case("an LSTM", sequences)
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, D, num_layers=2, dropout=0.2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * D, D)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.head(y), h, c


@case("a GRU with its state carried across", sequences)
class GruWithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(D, D, batch_first=True), linear()

    def forward(self, x, h=None):
        outputs = []
        for chunk in x.split(1, dim=1):
            y, h = self.gru(chunk, h)
            outputs.append(self.head(y))
        return torch.cat(outputs, 1), h


@case("a loop over LSTM cells", sequences)
class LstmCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(D, D), linear()

    def forward(self, x):
        h = c = x.new_zeros(len(x), D)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


@case("packed sequences", sequences)
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = linear(), nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        lengths = torch.arange(len(x)) % 3 + 1
        x = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        y, h = self.gru(x)
        assert isinstance(y, PackedSequence)
        return pad_packed_sequence(y, batch_first=True)[0], h


@case("hidden state kept as an attribute")
class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(D, D), None

    def forward(self, x):
        state = torch.zeros_like(x[:2]) if self.state is None else self.state
        y = self.cell(x[:2], state)
        self.state = y.detach()
        return y


@case("buffers replaced in forward")
class BufferReplaced(TwoLayers):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(D))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


@case("a Python counter")
class CountsInPython(TwoLayers):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.first(x) if self.calls % 2 else self.last(x) * self.calls


@case("the parameters' dtype and device asked for")
class AsksForDtype(TwoLayers):
    def forward(self, x):
        parameter = next(self.parameters())
        return super().forward(x.to(parameter.dtype).to(parameter.device))


# Contexts.


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


# Types of numbers.


@case("bfloat16", lambda n: ((torch.randn(n, D).bfloat16(),), {}))
def in_bfloat16():
    return TwoLayers().bfloat16()


@case("float16", lambda n: ((torch.randn(n, D).half(),), {}))
def in_float16():
    return TwoLayers().half()


@case("float64", lambda n: ((torch.randn(n, D).double(),), {}))
def in_float64():
    return TwoLayers().double()


@case("mixed types")
class Mixed(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first.bfloat16()
        self.last.double()

    def forward(self, x):
        return self.last(self.first(x.bfloat16()).double()).float()


@case("complex numbers", lambda n: ((torch.randn(n, D, dtype=torch.complex64),), {}))
def in_complex():
    return quietly(TwoLayers().to, torch.complex64)


@case("a Fourier transform in between")
class Fourier(TwoLayers):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(D, D, dtype=torch.complex64)

    def forward(self, x):
        return torch.fft.ifft(self.last(torch.fft.fft(self.first(x)))).real


@case("a sparse tensor", lambda n: ((torch.eye(n).to_sparse(), torch.randn(n, D)), {}))
class SparseInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = GraphConvolution(), linear()

    def forward(self, adjacency, x):
        return self.last(self.conv(adjacency, x))


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, adjacency, x):
        return torch.sparse.mm(adjacency, self.fc(x))


@case("sparse gradients", tokens)
class SparseGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, D, sparse=True), linear()

    def forward(self, x):
        return self.head(self.embedding(x))


# Classes that do what nn.Module does in their own way.


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


# torch's own machinery.


@case("parameter lists and dictionaries")
class ParameterContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.listed = nn.ParameterList([nn.Parameter(torch.randn(D, D)) for _ in range(2)])
        self.named = nn.ParameterDict({"scale": nn.Parameter(torch.ones(D))})
        self.fc = linear()

    def forward(self, x):
        for weight in self.listed:
            x = x @ weight
        return self.fc(x) * self.named["scale"]


@case("weight_norm as a parametrization")
class WeightNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = parametrizations.weight_norm(self.first)


@case("weight_norm as a hook")
class OldWeightNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(nn.utils.weight_norm, self.first)


@case("spectral_norm as a parametrization")
class SpectralNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = parametrizations.spectral_norm(self.first)


@case("spectral_norm as a hook")
class OldSpectralNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(nn.utils.spectral_norm, self.first)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()


@case("a parametrization of one's own")
class Parametrized(TwoLayers):
    def __init__(self):
        super().__init__()
        parametrize.register_parametrization(self.first, "weight", Symmetric())


@case("lazy layers before their first forward", images)
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d()
        self.head = nn.LazyLinear(D)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).flatten(1))


@case("lazy layers after their first forward", images)
def materialised():
    model = Lazy()
    model(images(2)[0][0])
    return model


@case("a script module as a part")
class Scripted(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(torch.jit.script, self.first)


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.compile(Noisy(D, D), backend="eager"), linear()

    def forward(self, x):
        return self.last(self.first(x))


class CompiledInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Noisy(D, D), linear()
        self.first.compile(backend="eager")

    def forward(self, x):
        return self.last(self.first(x))


@case("a graph module")
def graph_module():
    return fx.symbolic_trace(nn.Sequential(block(), nn.Tanh()))


@case("a graph module as a part")
def graph_module_part():
    return nn.Sequential(fx.symbolic_trace(block()), nn.Tanh(), linear())


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + 0 * x


@case("an autograd Function of one's own")
class OwnFunction(TwoLayers):
    def forward(self, x):
        return self.last(Double.apply(self.first(x)))


@case("vmap inside the forward")
class VmapInside(TwoLayers):
    def forward(self, x):
        return torch.vmap(lambda row: torch.tanh(row) * row.sum())(self.first(x)) + self.last(x)


@case("a gradient inside the forward")
class GradientInside(TwoLayers):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(x))).square().sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force


# Control flow and randomness.


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


# In place, views and inputs handed through.


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


# Layers with inputs of other kinds, and whole architectures.


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


@case("two thousand modules")
def two_thousand():
    return nn.Sequential(*(nn.ReLU() if i % 2 else nn.LayerNorm(D) for i in range(2000)))


# Hooks of the user's.


class Doubles:
    """Hooks, as a class of their own that can be copied."""

    @staticmethod
    def output(module, args, output):
        return output * 2

    @staticmethod
    def inputs(module, args):
        return (args[0] + 1,)

    @staticmethod
    def keywords(module, args, kwargs):
        return args, {**kwargs, "scale": 3.0}

    @staticmethod
    def gradient(module, grad_input, grad_output):
        return tuple(None if g is None else g * 2 for g in grad_input)


@case("a forward hook")
def with_forward_hook():
    model = TwoLayers()
    model.first.register_forward_hook(Doubles.output)
    return model


@case("a forward hook on the model itself")
def with_hook_on_root():
    model = TwoLayers()
    model.register_forward_hook(Doubles.output)
    return model


@case("a pre-hook that changes inputs")
def with_pre_hook():
    model = TwoLayers()
    model.last.register_forward_pre_hook(Doubles.inputs)
    model.register_forward_pre_hook(Doubles.inputs)
    return model


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, x, scale=1.0):
        return self.fc(x) * scale


@case("a pre-hook that changes keywords")
def with_keyword_hook():
    model = nn.Sequential(linear(), Scaled())
    model[1].register_forward_pre_hook(Doubles.keywords, with_kwargs=True)
    return model


@case("a full backward hook")
def with_backward_hook():
    model = TwoLayers()
    model.last.register_full_backward_hook(Doubles.gradient)
    return model


@case("a hook on a parameter")
def with_parameter_hook():
    model = TwoLayers()
    model.first.weight.register_hook(lambda g: g * 2)
    return model
