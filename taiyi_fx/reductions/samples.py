"""The samples of a tensor as its layer takes them, of which some may be without a part in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import accumulated, count


class SamplesReachedValue(NamedTuple):
    """Finished `SamplesReached`: the number of samples, and of those that are not all zero."""

    n: Tensor
    reached: Tensor


@dataclass(frozen=True)
class SamplesReached:
    """The number of entries of an axis, and of those that are not zero everywhere.

    Counts are exact.

    Cost: one pass

    Attributes:
        axis: The axis of the samples.
    """

    axis: int = 0

    def measure(self, x: Tensor) -> State:
        if not -x.ndim <= self.axis < x.ndim:
            raise IndexError(f"the axis is {self.axis}, but the tensor has {x.ndim} axes")
        x = accumulated(x).movedim(self.axis, 0)
        is_reached = x != 0 if x.ndim == 1 else (x != 0).flatten(1).any(1)
        return count(x.shape[0], x), is_reached.sum(dtype=torch.int64)

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state  # what is not zero stays so

    def finish(self, state: State) -> SamplesReachedValue:
        return SamplesReachedValue(*state)


class SampleVarianceValue(NamedTuple):
    """Finished `SampleVariance`: the sums of squared deviations, and the places without a value.

    Attributes:
        within: From the mean over the samples at the same place.
        total: From the mean over samples and places.
        empty: The number of places that are zero in all samples.
    """

    within: Tensor
    total: Tensor
    empty: Tensor


@dataclass(frozen=True)
class SampleVariance:
    """How far samples differ from each other at one place, beside how far all elements do.

    Samples lie on one of the first two axes and places on the other; each call has means of its
    own.

    Cost: six passes

    Attributes:
        axis: The axis of the samples: 0 or 1.
    """

    axis: int = 0

    def __post_init__(self) -> None:
        if self.axis not in (0, 1):
            raise ValueError(f"axis must be 0 or 1, not {self.axis!r}")

    def measure(self, x: Tensor) -> State:
        if x.ndim < 2:
            raise ValueError(f"a tensor of {x.ndim} axes has no samples and places")
        x = accumulated(x).double()
        x = x.unsqueeze(-1).flatten(2)
        within = (x - x.mean(self.axis, keepdim=True)).square().sum()
        total = (x - x.mean((0, 1), keepdim=True)).square().sum()
        is_empty = (x == 0).movedim(self.axis, 0).flatten(2).all(0).all(-1)
        return within, total, is_empty.sum(dtype=torch.int64)

    def merge(self, a: State, b: State) -> State:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def scale(self, state: State, factor: float) -> State:
        within, total, empty = state
        return within * factor**2, total * factor**2, empty

    def finish(self, state: State) -> SampleVarianceValue:
        return SampleVarianceValue(*state)
