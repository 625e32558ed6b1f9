"""Descriptions of optimizers, by their classes: torch's own, and those of a user's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from taiyi_fx.optimizers.trained import TrainedParameter

Tells = Callable[[TrainedParameter], Tensor]


@dataclass(frozen=True)
class Description:
    """The moments and the step that an optimizer's state tells.

    Attributes:
        first_moment: Takes a `TrainedParameter` to the mean of its gradients; None if none is kept.
        second_moment: The mean of their squares, likewise.
        step: What a step subtracts from the parameter, likewise.
        is_elementwise: True if each of their elements is made of what there is at its place alone.
        momentum: The key of a group's setting that is 0 where no first moment is kept; empty if it
            always is.
    """

    first_moment: Tells | None = None
    second_moment: Tells | None = None
    step: Tells | None = None
    is_elementwise: bool = False
    momentum: str = ""


_KNOWN: dict[type, Description] = {}


def describe_optimizer(
    kind: type,
    *,
    first_moment: str | Tells | None = None,
    second_moment: str | Tells | None = None,
    step: Tells | None = None,
    elementwise: bool = False,
    momentum: str = "",
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
        elementwise: True if each element of what these functions return is made of what the state,
            the parameter and the gradient have at its place: a large parameter is then taken in
            flat pieces, without a copy of all of it.
        momentum: The key of a parameter group's setting, such as ``"momentum"``, where the
            optimizer keeps no mean of gradients while that is 0.

    Raises:
        TypeError: The class is no class, or nothing is described by a key or a function.
    """
    if not isinstance(kind, type):
        raise TypeError(f"describe_optimizer takes the optimizer's class, not {kind!r}")
    given = {"first_moment": first_moment, "second_moment": second_moment, "step": step}
    for name, way in given.items():
        if way is not None and not callable(way) and (name == "step" or not isinstance(way, str)):
            also = "" if name == "step" else ", or a key of the state"
            raise TypeError(f"{name} is a function of a TrainedParameter{also}, not {way!r}")
    if all(way is None for way in given.values()):
        raise TypeError(f"nothing is said of {kind.__name__}: give {', '.join(given)}")
    tells = [_checked(kind, name, _function_of(way)) for name, way in given.items()]
    _KNOWN[kind] = Description(*tells, is_elementwise=elementwise, momentum=momentum)


def description_of(optimizer: Any) -> Description | None:  # whatever has param_groups
    """The description of an optimizer, or of the one that it wraps; None if there is none."""
    for kind in type(optimizer).__mro__:
        if kind in _KNOWN:
            return _KNOWN[kind]
    inner = getattr(optimizer, "optimizer", None)  # as Accelerate's, and Lightning's, have it
    return None if inner is None else description_of(inner)


def _checked(kind: type, name: str, tells: Tells | None) -> Tells | None:
    """A function of a description that says so if it returns no tensor."""
    if tells is None:
        return None

    @functools.wraps(tells)
    def tell(of: TrainedParameter) -> Tensor:
        found = tells(of)
        if not isinstance(found, Tensor):
            raise TypeError(
                f"{name} of {kind.__name__}, as describe_optimizer got it, is a tensor for "
                f"each parameter, not {found!r}: return one, and raise a KeyError where the "
                "state has none"
            )
        return found

    return tell


def _function_of(way: str | Tells | None) -> Tells | None:
    return functools.partial(_at_key, way) if isinstance(way, str) else way


def _at_key(key: str, of: TrainedParameter) -> Tensor:
    return of.state[key]
