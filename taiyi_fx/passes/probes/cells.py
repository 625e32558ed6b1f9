"""Cells: where compiled code keeps a statistic in place, from one fold to the next.

All numbers of a statistic share one vector, behind a count of folds: each tensor that compiled code
is given costs it time at every call. What is large has a cell of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State

Kind = tuple[tuple[int, ...], torch.dtype]
"""The shape and type of one part of a statistic."""

_SMALL = 16


def kinds_of(state: State) -> tuple[Kind, ...]:
    """The kinds of a statistic's parts."""
    # A size that the compiler left open is fixed: `range` asks it for a number, `int` does not.
    return tuple((tuple(len(range(n)) for n in part.shape), part.dtype) for part in state)


def new_cells(kinds: Sequence[Kind], device: torch.device) -> State:
    """Cells without any fold."""
    numbers = sum(math.prod(shape) for shape, dtype in kinds if _is_small(shape, dtype))
    wide = torch.float32 if device.type == "mps" else torch.float64
    # Never without an axis: compiled code takes such a float64 for a Python number, and loses what
    # is written into it.
    large = (torch.zeros(s, dtype=d, device=device) for s, d in kinds if not _is_small(s, d))
    return torch.zeros(1 + numbers, dtype=wide, device=device), *large


def unpacked(cells: State, kinds: Sequence[Kind]) -> tuple[Tensor, State]:
    """The count of folds, a scalar, and the statistic."""
    numbers, *large = cells
    remaining, at = iter(large), 1
    state: list[Tensor] = []
    for shape, dtype in kinds:
        if _is_small(shape, dtype):
            part = _at(numbers, at, shape)
            state.append(part if dtype == numbers.dtype else part.to(dtype))
            at += math.prod(shape)
        else:
            state.append(next(remaining))
    return numbers[0], tuple(state)


def pack(cells: State, count: Tensor, state: State) -> None:
    """Writes a statistic into its cells."""
    numbers, *large = cells
    small = [part for part in state if _is_small(part.shape, part.dtype)]
    # All at once: of numbers written one by one, inductor of torch 2.6 may write the count before
    # others have read it (https://github.com/pytorch/pytorch/pull/162316).
    parts = [part.to(numbers.dtype) for part in (count, *small)]
    if any(part.shape for part in small):
        numbers.copy_(torch.cat([part.reshape(-1) for part in parts]))
    else:
        numbers.copy_(torch.stack(parts))
    remaining = iter(large)
    for part in state:
        if not _is_small(part.shape, part.dtype):
            next(remaining).copy_(part)


def cells_in(state: State) -> int:
    """How many cells a statistic takes."""
    return 1 + sum(not _is_small(part.shape, part.dtype) for part in state)


def _at(numbers: Tensor, start: int, shape: Sequence[int]) -> Tensor:
    # Each operation takes the compiler time, so a scalar gets by with one.
    return numbers[start : start + math.prod(shape)].view(shape) if shape else numbers[start]


def _is_small(shape: Sequence[int], dtype: torch.dtype) -> bool:
    return not dtype.is_complex and math.prod(shape) <= _SMALL
