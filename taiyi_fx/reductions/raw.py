"""The tensor itself, or its signs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import accumulated, copied

_ROWS = 64
"""Parts are of at least so many rows, if there are."""


@dataclass(frozen=True)
class Sign:
    """The sign of each element, -1, 0 or 1 (0 for NaN), as int8 in the tensor's own shape.

    Cost: a copy, of a byte for each element
    """

    def measure(self, x: Tensor) -> State:
        return (accumulated(x).sign().nan_to_num_().to(torch.int8),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0].reshape(-1), b[0].reshape(-1)]),)

    def scale(self, state: State, factor: float) -> State:
        return state if factor > 0 else (-state[0],)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class Raw:
    """A copy of the tensor itself, several micro-batches joined along their first axis.

    The state has no fixed shape, so in compiled code only values are kept, not gradients.

    Cost: a copy

    Attributes:
        max_elements: Keep only as many leading rows as hold at most this many elements
            (leading elements, flattened, where a single row holds more). ``None``: everything.
    """

    max_elements: int | None = None
    has_fixed_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        bound = self.max_elements
        if bound is not None and (not isinstance(bound, int) or bound < 1):
            raise ValueError(f"max_elements must be a positive whole number, not {bound!r}")

    def measure(self, x: Tensor) -> State:
        return (copied(self._bounded(x)),)

    def merge(self, a: State, b: State) -> State:
        """Joins along the first axis; tensors whose rows differ in shape are joined flattened."""
        x, y = a[0], b[0]
        if not (x.ndim and y.ndim) or x.shape[1:] != y.shape[1:]:  # a scalar is a row of its own
            x, y = x.reshape(-1), y.reshape(-1)
        return (self._bounded(torch.cat([x, y])),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> Tensor:
        return state[0]

    def _bounded(self, x: Tensor) -> Tensor:
        if self.max_elements is None or x.numel() <= self.max_elements:
            return x
        rows = self.max_elements // x[0].numel()
        return x[:rows] if rows else x.reshape(-1)[: self.max_elements]


@dataclass(frozen=True)
class Sample(Raw):
    """The same of rows that are evenly spaced, where not all are kept.

    Of a parameter: its first rows may be dead units, or words that never come.

    Cost: a copy

    Attributes:
        max_elements: Keep only as many rows as hold at most this many elements (elements,
            flattened, where a single row holds more). ``None``: everything.
    """

    def _bounded(self, x: Tensor) -> Tensor:
        if self.max_elements is None or x.numel() <= self.max_elements:
            return x
        rows = self.max_elements // x[0].numel()
        if not rows:
            x, rows = x.reshape(-1), self.max_elements
        return x[:: math.ceil(len(x) / rows)]


@dataclass(frozen=True)
class Parts(Sample):
    """The same of parts of many rows, where rows are long.

    A few rows may all be of dead units: so at least 64 are looked at, where there are as many. Each
    gives a part, the first its beginning and the last its end.

    Cost: a copy

    Attributes:
        max_elements: Keep only as many rows, or parts of them, as hold at most this many elements.
            ``None``: everything.
    """

    def _bounded(self, x: Tensor) -> Tensor:
        if self.max_elements is None or x.numel() <= self.max_elements:
            return x
        size = x[0].numel()
        rows = min(len(x), _ROWS, self.max_elements)
        if size * rows <= self.max_elements:
            return super()._bounded(x)
        x = x[:: math.ceil(len(x) / rows)]
        return _parts(x.reshape(len(x), size), self.max_elements // len(x))


def _parts(rows: Tensor, size: int) -> Tensor:
    """A part of each row, further on in each than in the one before."""
    count, length = rows.shape
    further = (length - size) // max(count - 1, 1)
    strides = rows.stride(0) + further * rows.stride(1), rows.stride(1)
    return rows.as_strided((count, size), strides)
