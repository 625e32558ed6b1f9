"""A batch whose tensors can be read and replaced by name."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

Change = Callable[[str, Tensor], Tensor]
"""Of a tensor's name and the tensor: another one."""


class Batch(NamedTuple):
    """The arguments that a step, or a module, is called with.

    Attributes:
        args: The arguments by position.
        kwargs: Those by name.
        names: Names for those by position.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...] = ()

    def tensors(self) -> dict[str, Tensor]:
        """The tensors in it, by name: ``x``, ``labels``, ``y['boxes'][0]``."""
        found: dict[str, Tensor] = {}
        self.mapped(lambda name, x: found.setdefault(name, x))
        return found

    def mapped(self, change: Change) -> Batch:
        """The same batch with each tensor changed, in containers and dataclasses."""
        args = tuple(_mapped(x, self._name(i), change) for i, x in enumerate(self.args))
        kwargs = {name: _mapped(x, name, change) for name, x in self.kwargs.items()}
        return Batch(args, kwargs, self.names)

    def replaced(self, new: Mapping[str, Tensor]) -> Batch:
        """The same batch with some tensors replaced by others."""
        return self.mapped(lambda name, x: new.get(name, x))

    def converted(self, dtype: torch.dtype | None) -> Batch:
        """A copy whose real floating-point tensors have another type."""
        return self.mapped(lambda _, x: copied(x, dtype))

    def _name(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else f"argument {position + 1}"


def _mapped(value: Any, name: str, change: Change) -> Any:
    if isinstance(value, Tensor):
        return change(name, value)
    if isinstance(value, Mapping):
        items = {key: _mapped(x, f"{name}[{key!r}]", change) for key, x in value.items()}
        return items if type(value) is dict else _with_items(value, items)
    if isinstance(value, (list, tuple)):
        made = [_mapped(x, f"{name}[{i}]", change) for i, x in enumerate(value)]
        # Tuples with names, and those of torch.return_types, are made of their parts.
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        made_of = {key: _mapped(x, f"{name}.{key}", change) for key, x in fields.items()}
        return _with_fields(value, made_of)
    return value


def _with_items(value: Any, items: Mapping[Any, Any]) -> Any:
    made = copy.copy(value)  # such as what tokenizers return
    for key, x in items.items():
        if x is not value[key]:
            made[key] = x
    return made


def _with_fields(value: Any, fields: Mapping[str, Any]) -> Any:
    made = copy.copy(value)
    for name, x in fields.items():
        object.__setattr__(made, name, x)  # also of frozen ones
    return made


def batch_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Batch:
    """A batch whose tensors are named as the function names its parameters."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # builtins may have no signature
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return Batch(args, kwargs, tuple(p.name for p in parameters if p.kind in kinds))


def copied(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A copy without a graph, of another type, if one is given, for real floating-point numbers."""
    made = x.detach().to(dtype if dtype and x.is_floating_point() else x.dtype, copy=True)
    return made.requires_grad_(x.requires_grad)
