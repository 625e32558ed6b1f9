"""Reductions over the rows of each feature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, are_nan, count, row_axes
from taiyi_fx.reductions.sums import is_fast, norm_of_both, ratio, square_sums


@dataclass(frozen=True)
class FeatureMax:
    """The largest value of each feature over all rows. Finishes as a vector of C values.

    Cost: one pass

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"

    def measure(self, x: Tensor) -> State:
        x, axes = _with_rows(x, self.feature_axis)
        if x.numel() == 0:
            return (torch.full_like(x.sum(axes), -torch.inf),)
        return (x.amax(axes),)

    def merge(self, a: State, b: State) -> State:
        return (torch.maximum(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> Tensor:
        return state[0]


_EXACT = 2**24
"""Up to here float32 counts ones exactly."""


class ActivityValue(NamedTuple):
    """Finished `Activity`: the number of rows, and the share of active ones of each feature.

    The share is NaN where an element is NaN.
    """

    n: Tensor
    rate: Tensor


@dataclass(frozen=True)
class Activity:
    """Number of active rows of each feature: larger than ``eps`` in absolute value.

    Counts are exact.

    Cost: three passes

    Attributes:
        eps: The bound above which a row is active, 0 or more.
        feature_axis: The axis of the features.
    """

    eps: float = 1e-8
    feature_axis: FeatureAxis = "auto"

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise ValueError(f"eps must be a number of at least 0, not {self.eps!r}")

    def measure(self, x: Tensor) -> State:
        x, axes = _with_rows(x, self.feature_axis)
        n = 1
        for axis in axes:
            n *= x.shape[axis]
        if not is_fast(x) or n >= _EXACT:
            return count(n, x), (x.abs() > self.eps).sum(axes), are_nan(x).sum(axes)
        # In place, ones and zeros stay numbers of float32, which take a fifth of the time to add.
        active = x.abs().gt_(self.eps).sum(axes).long()
        is_finite = math.isfinite(x.sum())
        broken = torch.zeros_like(active) if is_finite else are_nan(x).sum(axes)
        return count(n, x), active, broken

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    def scale(self, state: State, factor: float) -> State:
        return state  # what the loss was multiplied with makes nothing active

    def finish(self, state: State) -> ActivityValue:
        n, active, broken = state
        return ActivityValue(n, torch.where(broken > 0, torch.nan, ratio(active, n)))


class FeatureNormsValue(NamedTuple):
    """Finished `FeatureNorms`: the number of rows, and the Euclidean norm of each feature."""

    n: Tensor
    norms: Tensor


@dataclass(frozen=True)
class FeatureNorms:
    """Number of rows, and the Euclidean norm of each feature over them.

    Cost: two passes

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"

    def measure(self, x: Tensor) -> State:
        x, axes = _with_rows(x, self.feature_axis)
        n = 1
        for axis in axes:
            n *= x.shape[axis]
        return count(n, x), square_sums(x, axes).sqrt()

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], norm_of_both(a[1], b[1])

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * abs(factor)

    def finish(self, state: State) -> FeatureNormsValue:
        return FeatureNormsValue(*state)


def _with_rows(x: Tensor, feature_axis: FeatureAxis) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor in the type to reduce it in, and the axes of its rows, of which it has some."""
    x = accumulated(x)
    x = x.reshape(1, 1) if x.ndim == 0 else x
    axes = row_axes(x, feature_axis)
    return (x, axes) if axes else (x.unsqueeze(0), (0,))
