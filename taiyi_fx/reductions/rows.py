"""A tensor as every reduction takes it: its type, and its rows of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from taiyi_fx.passes.probes.compiling import is_compiling

_REAL = (torch.float32, torch.float64)
_FLOATING = (*_REAL, torch.float16, torch.bfloat16)

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


def copied(x: Tensor) -> Tensor:
    """A copy of a tensor, which later changes of it do not reach.

    In compiled code it is one that no pass of inductor takes for a copy. It removes copies of what
    nothing changes, and so makes one output of a copy read and a copy that the model returns, which
    then has no gradient.
    """
    return torch.maximum(x, x) if is_compiling() and x.dtype in _FLOATING else x.clone()


def are_nan(x: Tensor) -> Tensor:
    """True where an element is NaN.

    As a comparison: of `isnan`, inductor makes a loop without vectors, with all that it has joined
    to it.
    """
    return x != x


def as_matrix(x: Tensor, feature_axis: FeatureAxis) -> Tensor:
    """``x`` as rows by features, N x C: the feature axis moved last, all others flattened.

    Raises:
        ValueError: The tensor has no such axis, or no features on it.
    """
    if x.ndim == 0:
        return x.reshape(1, 1)
    axis = _existing_axis(x, feature_axis)
    if not x.shape[axis]:
        raise ValueError(f"a tensor of shape {tuple(x.shape)} has no features on its axis {axis}")
    return x.movedim(axis, -1).reshape(-1, x.shape[axis])


def row_axes(x: Tensor, feature_axis: FeatureAxis) -> tuple[int, ...]:
    """All axes but that of the features.

    Raises:
        ValueError: The tensor has no such axis.
    """
    axis = _existing_axis(x, feature_axis)
    return tuple(i for i in range(x.ndim) if i != axis % x.ndim)


def _existing_axis(x: Tensor, feature_axis: FeatureAxis) -> int:
    axis = axis_of(x, feature_axis)
    if not -x.ndim <= axis < x.ndim:
        shape = tuple(x.shape)
        raise ValueError(
            f"the axis of features is {axis}, which a tensor of shape {shape} has not: the option "
            "feature_axis sets it"
        )
    return axis


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
