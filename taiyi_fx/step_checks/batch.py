"""A batch whose tensors can be read and replaced by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten


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
        found, _ = tree_flatten_with_path(self._by_name())
        return {_name(path): leaf for path, leaf in found if isinstance(leaf, Tensor)}

    def mapped(self, change: Callable[[str, Tensor], Tensor]) -> Batch:
        """The same batch with each tensor changed."""
        found, structure = tree_flatten_with_path(self._by_name())
        leaves = [change(_name(p), x) if isinstance(x, Tensor) else x for p, x in found]
        made = [*tree_unflatten(leaves, structure).values()]
        args, others = made[: len(self.args)], made[len(self.args) :]
        return Batch((*args,), dict(zip(self.kwargs, others, strict=True)), self.names)

    def replaced(self, new: Mapping[str, Tensor]) -> Batch:
        """The same batch with some tensors replaced by others."""
        return self.mapped(lambda name, x: new.get(name, x))

    def converted(self, dtype: torch.dtype | None) -> Batch:
        """A copy whose real floating-point tensors have another type."""
        return self.mapped(lambda _, x: copied(x, dtype))

    def _by_name(self) -> dict[str, Any]:
        numbered = [f"argument {i + 1}" for i in range(len(self.args))]
        by_position = [*self.names[: len(self.args)], *numbered[len(self.names) :]]
        return {**dict(zip(by_position, self.args, strict=True)), **self.kwargs}


def batch_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Batch:
    """A batch whose tensors are named as the function names its parameters."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # builtins may have no signature
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return Batch(args, kwargs, tuple(p.name for p in parameters if p.kind in kinds))


def copied(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A copy without a graph, of another type, if one is given, for real floating-point numbers."""
    made = x.detach().to(dtype if dtype and x.is_floating_point() else x.dtype, copy=True)
    return made.requires_grad_(x.requires_grad)


def _name(path: tuple[Any, ...]) -> str:
    return f"{path[0].key}{keystr(path[1:])}"
