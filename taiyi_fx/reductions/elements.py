"""Reductions over all elements of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

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
