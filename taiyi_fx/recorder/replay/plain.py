"""Values of any structure as JSON and tensors, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.recorder.replay.checkpoint import Key
from taiyi_fx.recorder.replay.stand_ins import StandIn


class CannotSave(Exception):
    """A value that a file cannot hold; the message names it."""


class Plain:
    """Turns values into JSON, and puts their tensors aside.

    Attributes:
        tensors: The tensors, by the names that stand for them.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, name: str, x: Tensor) -> dict[str, Any]:
        """Puts a tensor aside, under a name."""
        self.tensors[name] = x.detach()
        return {"tensor": name, "requires_grad": x.requires_grad}

    def value(self, path: str, value: Any) -> Any:
        """A value as JSON.

        Raises:
            CannotSave: It, or a part of it, is of a class that is neither JSON's nor torch's.
        """
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, Tensor):
            return self.tensor(path, value)
        if isinstance(value, Key):
            return {"key": value.name}
        if isinstance(value, StandIn):
            return {"stand-in": value.optimizer}
        if isinstance(value, (torch.dtype, torch.device)):
            kind = type(value).__name__
            return {kind: str(value).removeprefix("torch.")}
        if isinstance(value, Mapping):
            pairs = [[k, self.value(f"{path}.{k}", v)] for k, v in value.items()]
            if all(isinstance(k, (str, int)) for k, _ in pairs):
                return {"dict": pairs}
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.value(f"{path}.{i}", v) for i, v in enumerate(value)]}
        raise CannotSave(f"{path} is a {type(value).__name__}, which a file cannot hold")


def value_of(found: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that JSON and tensors stand for."""
    if not isinstance(found, dict):
        return found
    (kind, held), *_ = found.items()
    if kind == "tensor":
        return tensors[held].clone().requires_grad_(found["requires_grad"])
    if kind == "dict":
        return {key: value_of(value, tensors) for key, value in held}
    if kind in ("tuple", "list"):
        parts = [value_of(value, tensors) for value in held]
        return tuple(parts) if kind == "tuple" else parts
    if kind not in _SIMPLE:
        raise ValueError(f"a value of kind {kind!r} is not known")
    return _SIMPLE[kind](held)


_SIMPLE: dict[str, Any] = {
    "float": float,
    "stand-in": StandIn,
    "key": lambda name: Key(name, torch.device("cpu")),
    "dtype": lambda name: getattr(torch, name),
    "device": torch.device,
}
