"""The state that a step begins from: copied to the host, or to a file, in bounded memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import named_buffers, named_modules, named_parameters
from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.recorder.replay.facts import has_non_finite
from taiyi_fx.snapshot.bitwise import SCALARS

Allocate = Callable[[str, Tensor], Tensor]
"""Memory on the host for a tensor of a name."""


@dataclass(frozen=True)
class OptimizerState:
    """The state of an optimizer.

    Attributes:
        groups: The parameter groups; each parameter by its name in the model, or None.
        states: The state of each parameter, by the parameter's name; tensors are names of the
            checkpoint's tensors.
    """

    groups: tuple[Mapping[str, Any], ...]
    states: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Key:
    """A reference to one of a checkpoint's tensors, with the device that it came from."""

    name: str
    device: torch.device


@dataclass(frozen=True)
class Checkpoint:
    """All that a step begins from.

    Attributes:
        step: The step that begins.
        tensors: Parameters and buffers (``"model.fc.weight"``), and tensors of the optimizers'
            states (``"optimizer.0.fc.weight.exp_avg"``), on the host.
        optimizers: The optimizers' states.
        random: The states of all random generators.
        scaler: The state of the scaler, if one is known.
    """

    step: int
    tensors: Mapping[str, Tensor]
    optimizers: tuple[OptimizerState, ...]
    random: Mapping[str, Any]
    scaler: Mapping[str, Any] | None = None

    @property
    def bytes(self) -> int:
        """The memory that its tensors take."""
        return sum(x.nbytes for x in self.tensors.values())

    def first_non_finite(self) -> str | None:
        """The name of the first tensor with a NaN, or of the first parameter with an Inf, too."""
        for name, x in self.tensors.items():
            if has_non_finite(x) and (name in self._parameters or bool(x.isnan().any())):
                return name
        return None

    @property
    def _parameters(self) -> set[str]:
        return {f"model.{n}" for o in self.optimizers for g in o.groups for n in g["params"] if n}


@dataclass
class Keeping:
    """Tensors on their way into a checkpoint."""

    allocate: Allocate
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def keep(self, name: str, x: Tensor) -> Key:
        """Copies a tensor."""
        own = x.detach()
        self.tensors[name] = self.allocate(name, own).copy_(own)
        return Key(name, own.device)


def tensors_of(model: nn.Module, optimizers: Sequence[Optimizer]) -> Iterator[tuple[str, Tensor]]:
    """All tensors that a checkpoint holds, by name."""
    for name, x in (*named_parameters(model), *named_buffers(model)):
        yield f"model.{name}", x
    names = _names(model)
    for i, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    yield f"optimizer.{i}.{names.get(parameter, '?')}.{key}", value


def shown_name(name: str) -> str:
    """The name of such a tensor, for a text."""
    holder, _, rest = name.partition(".")
    if holder == "model":
        return rest
    _, _, rest = rest.partition(".")
    parameter, _, key = rest.rpartition(".")
    return f"{key} of {parameter} in the optimizer's state"


def capture(
    step: int,
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    scaler: torch.amp.GradScaler | None,
    allocate: Allocate,
) -> Checkpoint:
    """A checkpoint of the present state."""
    keeping = Keeping(allocate)
    for name, x in (*named_parameters(model), *named_buffers(model)):
        keeping.keep(f"model.{name}", x)
    names = _names(model)
    states = tuple(_of_optimizer(i, o, names, keeping) for i, o in enumerate(optimizers))
    kept_scaler = None if scaler is None else dict(scaler.state_dict())
    return Checkpoint(step, keeping.tensors, states, random_state(), kept_scaler)


def values_of(model: nn.Module) -> dict[str, dict[str, Any]]:
    """The plain values of all modules, by their names."""
    return {name: plain_values(module) for name, module in named_modules(model)}


def plain_values(module: nn.Module) -> dict[str, Any]:
    """The numbers, texts and truths that a module holds as attributes."""
    return {name: value for name, value in vars(module).items() if type(value) in SCALARS}


def _names(model: nn.Module) -> dict[Any, str]:
    return {parameter: name for name, parameter in named_parameters(model)}


def _of_optimizer(
    number: int, optimizer: Optimizer, names: Mapping[Any, str], keeping: Keeping
) -> OptimizerState:
    def kept(path: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            return keeping.keep(f"optimizer.{number}.{path}", value)
        return copy.deepcopy(value)

    groups = tuple(
        {
            **{k: kept(f"group {i}.{k}", v) for k, v in group.items() if k != "params"},
            "params": [names.get(p) for p in group["params"]],
        }
        for i, group in enumerate(optimizer.param_groups)
    )
    states = {
        names[p]: {key: kept(f"{names[p]}.{key}", value) for key, value in state.items()}
        for p, state in optimizer.state.items()
        if p in names
    }
    return OptimizerState(groups, states)
