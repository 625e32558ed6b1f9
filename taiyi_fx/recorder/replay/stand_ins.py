"""Arguments of a step's function that are the training's own: its model, and its optimizers.

A file holds neither; where a step is run again elsewhere, others take their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_WITHIN = "_orig_mod", "module"
"""The attributes by which torch's own wrappers hold a model: compiled ones, and ranks' ones."""


@dataclass(frozen=True)
class StandIn:
    """Stands for an argument that is the training's own.

    Attributes:
        optimizer: The place of it among the optimizers; None stands for the model.
    """

    optimizer: int | None = None


def without_training(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    model: nn.Module,
    optimizers: Sequence[Optimizer],
) -> Arguments:
    """Arguments with stand-ins for the model, wrapped or not, and for optimizers."""

    def of(value: Any) -> Any:
        if isinstance(value, nn.Module) and any(vars(m) is vars(model) for m in _within(value)):
            return StandIn()
        return next((StandIn(i) for i, o in enumerate(optimizers) if o is value), value)

    return tuple(map(of, args)), {name: of(value) for name, value in kwargs.items()}


def with_training(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    model: nn.Module,
    optimizers: Sequence[Optimizer],
) -> Arguments:
    """Arguments with a model, and optimizers, in place of those that stand for them.

    Raises:
        ValueError: An optimizer is not there.
    """

    def of(value: Any) -> Any:
        if not isinstance(value, StandIn):
            return value
        if value.optimizer is None:
            return model
        if value.optimizer >= len(optimizers):
            raise ValueError(
                "the step's function takes an optimizer that is not one of torch's, and cannot be "
                "made here"
            )
        return optimizers[value.optimizer]

    return tuple(map(of, args)), {name: of(value) for name, value in kwargs.items()}


def _within(module: Any) -> Iterator[nn.Module]:
    """A module, and what torch's own wrappers hold."""
    while isinstance(module, nn.Module):
        yield module
        found = vars(module).get("_modules", {})
        module = next((found[name] for name in _WITHIN if name in found), None)
