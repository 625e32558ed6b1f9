"""A tensor as every reduction takes it: its type, and its rows of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from taiyi_fx.passes.probes.compiling import is_compiling

_REAL = (torch.float32, torch.float64)

FeatureAxis = int | Literal["auto"]
"""The axis that holds the features; ``"auto"`` is resolved by the module's class."""


def accumulated(x: Tensor) -> Tensor:
    """``x`` in the type that it is reduced in.

    Half precision becomes float32, float64 stays, integers and booleans become float32,
    complex numbers are replaced by their absolute value.
    """
    # Nearly always there is nothing to do; the compiler takes no such question.
    if x.dtype in _REAL and not is_compiling() and not x.is_neg():
        return x
    # Asked of its type: of the tensor, the compiler of torch 2.6 takes no such question backwards.
    if x.dtype.is_complex:
        x = x.abs()
    x = x.resolve_neg()
    return x if x.dtype in _REAL else x.to(torch.float32)


def as_matrix(x: Tensor, feature_axis: FeatureAxis) -> Tensor:
    """``x`` as rows by features, N x C: the feature axis moved last, all others flattened.

    Raises:
        IndexError: The tensor has no such axis.
    """
    if x.ndim == 0:
        return x.reshape(1, 1)
    axis = axis_of(x, feature_axis)
    return x.movedim(axis, -1).reshape(-1, x.shape[axis])


def row_axes(x: Tensor, feature_axis: FeatureAxis) -> tuple[int, ...]:
    """All axes but that of the features.

    Raises:
        IndexError: The tensor has no such axis.
    """
    axis = axis_of(x, feature_axis)
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"the feature axis is {axis}, but the tensor has {x.ndim} axes")
    return tuple(i for i in range(x.ndim) if i != axis % x.ndim)


def on_device(
    numbers: Sequence[float] | Sequence[int], device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Numbers as a vector on a device, for which the host does not wait."""
    if device.type != "cuda" or is_compiling():
        return torch.tensor(numbers, dtype=dtype, device=device)
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def count(n: int, like: Tensor) -> Tensor:
    """A number of rows or elements, as an integer scalar beside a tensor."""
    return torch.full((), n, dtype=torch.int64, device=like.device)


def axis_of(x: Tensor, feature_axis: FeatureAxis) -> int:
    """The axis of the features; it may be counted from the end."""
    # What no module resolved: channels of images, else the last axis.
    return (1 if x.ndim >= 4 else -1) if feature_axis == "auto" else feature_axis
