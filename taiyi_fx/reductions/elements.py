"""Reductions over all elements of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import accumulated, count


@dataclass(frozen=True)
class Norm:
    """The Euclidean norm of all elements. Finishes as a scalar."""

    def measure(self, x: Tensor) -> State:
        return (torch.linalg.vector_norm(accumulated(x)),)

    def merge(self, a: State, b: State) -> State:
        return (torch.hypot(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * abs(factor),)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class AbsMax:
    """The largest absolute value of all elements; NaN if one is. Finishes as a scalar."""

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        return (x.abs().amax() if x.numel() else x.new_zeros(()),)

    def merge(self, a: State, b: State) -> State:
        return (torch.maximum(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * abs(factor),)

    def finish(self, state: State) -> Tensor:
        return state[0]


class SampleNormsValue(NamedTuple):
    """Finished `SampleNorms`: the number of samples and the sum of their norms."""

    n: Tensor
    total: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean over the samples; NaN without any."""
        return self.total / self.n


@dataclass(frozen=True)
class SampleNorms:
    """The Euclidean norms of the samples, which are the entries of axis 0.

    Attributes:
        normalize: Divide each by the root of its number of elements, for a root mean square.
    """

    normalize: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.normalize, bool):
            raise TypeError(f"normalize must be True or False, not {self.normalize!r}")

    def measure(self, x: Tensor) -> State:
        samples = accumulated(x).reshape(x.shape[0] if x.ndim else 1, -1)
        norms = torch.linalg.vector_norm(samples, dim=1)
        if self.normalize:
            norms = norms / samples.shape[1] ** 0.5
        return count(len(samples), x), norms.sum()

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * abs(factor)

    def finish(self, state: State) -> SampleNormsValue:
        return SampleNormsValue(*state)


@dataclass(frozen=True)
class SquareSum:
    """The sum of the squares of all elements. Finishes as a scalar."""

    def measure(self, x: Tensor) -> State:
        return (accumulated(x).square().sum(),)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor**2,)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class Count:
    """The number of elements. Finishes as an integer scalar."""

    def measure(self, x: Tensor) -> State:
        return (count(x.numel(), x),)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> Tensor:
        return state[0]
