"""Descriptions of optimizers, by their classes: torch's own, and those of a user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class NoGradient(LookupError):
    """A step is made of the gradient, and none reached the parameter."""


class WideState(Mapping[str, Any]):
    """The state that an optimizer keeps of a parameter, its tensors wide enough to compute with.

    Half precision is float32 here, and a complex number is two real ones.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state

    def __getitem__(self, key: str) -> Any:
        value = self._state[key]
        if value is None:  # as SGD has it before its first step
            raise KeyError(key)
        return in_wide(value) if isinstance(value, Tensor) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


class TrainedParameter:
    """A parameter as its optimizer has it at `Monitor.track`, before the step.

    Tensors are in float32 or wider, and a complex number is two real ones.

    Attributes:
        dtype: The type that the parameter is kept in.
        state: The optimizer's state of it, after the steps so far.
        group: The options of its parameter group, such as ``"lr"``.
    """

    def __init__(
        self,
        tensor: Tensor,
        state: Mapping[str, Any],
        group: Mapping[str, Any],
        gradient_factor: float = 1.0,
    ) -> None:
        self.dtype = tensor.dtype
        self.state = WideState(state)
        self.group = group
        self._tensor = tensor
        self._factor = gradient_factor

    @property
    def parameter(self) -> Tensor:
        """Its numbers."""
        return in_wide(self._tensor)

    @property
    def gradient(self) -> Tensor:
        """The gradient of the true loss, whatever it was scaled with, as it is at ``track``."""
        gradient = self._tensor.grad
        if gradient is None:
            raise NoGradient("no gradient reached it")
        return in_wide(gradient if gradient.layout == torch.strided else gradient.to_dense()) * (
            self._factor
        )


Tells = Callable[[TrainedParameter], Tensor]


@dataclass(frozen=True)
class Description:
    """The moments and the step that an optimizer's state tells.

    Attributes:
        first_moment: Takes a `TrainedParameter` to the mean of its gradients; None if none is kept.
        second_moment: The mean of their squares, likewise.
        step: What a step subtracts from the parameter, likewise.
    """

    first_moment: Tells | None = None
    second_moment: Tells | None = None
    step: Tells | None = None


_KNOWN: dict[type, Description] = {}


def describe_optimizer(
    kind: type,
    *,
    first_moment: str | Tells | None = None,
    second_moment: str | Tells | None = None,
    step: Tells | None = None,
) -> None:
    """Describes an optimizer, so that quantities such as ``FirstMoment`` can be asked for.

    Those of torch are described already. It holds for derived classes too, as long as they have no
    description of their own; another description of the same class replaces it.

    Args:
        kind: The optimizer's class.
        first_moment: The mean of the gradients: its key in the state of a parameter; or a function
            of a `TrainedParameter` that returns it, such as one that corrects its bias.
        second_moment: The mean of their squares, likewise.
        step: A function of a `TrainedParameter` that returns the tensor that a step subtracts from
            the parameter: the last step if it is made of the state alone, else the one to come.

    Raises:
        TypeError: The class is no class, or nothing is described by a key or a function.
    """
    if not isinstance(kind, type):
        raise TypeError(f"describe_optimizer takes the optimizer's class, not {kind!r}")
    given = {"first_moment": first_moment, "second_moment": second_moment, "step": step}
    for name, told in given.items():
        if (
            told is not None
            and not callable(told)
            and (name == "step" or not isinstance(told, str))
        ):
            also = "" if name == "step" else ", or a key of the state"
            raise TypeError(f"{name} is a function of a TrainedParameter{also}, not {told!r}")
    if all(told is None for told in given.values()):
        raise TypeError(f"nothing is said of {kind.__name__}: give {', '.join(given)}")
    _KNOWN[kind] = Description(_told(first_moment), _told(second_moment), step)


def description_of(optimizer: Any) -> Description | None:  # whatever has param_groups
    """The description of an optimizer, or of the one that it wraps; None if there is none."""
    for kind in type(optimizer).__mro__:
        if kind in _KNOWN:
            return _KNOWN[kind]
    inner = getattr(optimizer, "optimizer", None)  # as Accelerate's, and Lightning's, have it
    return None if inner is None else description_of(inner)


def in_wide(x: Tensor) -> Tensor:
    """A tensor in float32 or wider, without gradient; complex numbers as two real ones."""
    x = x.detach()
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


def _told(told: str | Tells | None) -> Tells | None:
    return functools.partial(_at_key, told) if isinstance(told, str) else told


def _at_key(key: str, of: TrainedParameter) -> Tensor:
    return of.state[key]
