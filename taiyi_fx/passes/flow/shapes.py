"""The shapes of the tensors that calls are given and return, and that a graph's nodes make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from taiyi_fx.passes.structure import tensors_in

Shape = tuple[int, ...]
"""A tensor's sizes; -1 for one that is not a plain number, as in nested tensors."""


@dataclass(frozen=True)
class Shapes:
    """The shapes of the inputs and outputs of a module's call.

    Attributes:
        inputs: Those of the tensors in its arguments, in order; a tensor that occurs twice counts
            twice.
        outputs: Those of the tensors in its result.
    """

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]


def shapes_in(value: Any) -> tuple[Shape, ...]:
    """The shapes of all tensors in a value, in order."""
    return tuple(map(_shape, tensors_in(value)))


def _shape(tensor: Tensor) -> Shape:
    if tensor.is_nested:  # has no sizes, or symbols for some
        return (-1,) * tensor.dim()
    return tuple(size if isinstance(size, int) else -1 for size in tensor.shape)
