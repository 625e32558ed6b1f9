"""States as vectors: the numbers of many states leave compiled code as one tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Foldable, State, has_fixed_shape

Kind = tuple[tuple[int, ...], torch.dtype]
"""The shape and type of one part of a state."""

_SMALL = 64
_SCALARS = {torch.float64: float, torch.int64: int}


class Room(NamedTuple):
    """The place where a state lies.

    Attributes:
        tensor: In which tensor; or, without a start, from which one on it has its own.
        start: From which number on.
        kinds: What its parts are.
    """

    tensor: int
    start: int | None
    kinds: tuple[Kind, ...]


def kinds_of(state: State, *, is_fixed: bool) -> tuple[Kind, ...]:
    """The kinds of a state's parts; without a shape where that is not fixed and left open."""
    return tuple((_shape_of(part, is_fixed=is_fixed), part.dtype) for part in state)


def _shape_of(part: Tensor, *, is_fixed: bool) -> tuple[int, ...]:
    if not is_fixed and is_left_open(part):
        return ()
    # A size that the compiler left open is fixed: `range` asks it for a number, `int` does not.
    return tuple(len(range(n)) for n in part.shape)


def is_left_open(x: Tensor) -> bool:
    """True if compiled code takes tensors of other sizes in its place."""
    return any(isinstance(n, torch.SymInt) for n in x.shape)


def size_of(kinds: Sequence[Kind]) -> int:
    """The count of numbers in a state of these kinds."""
    return sum(math.prod(shape) * (2 if dtype.is_complex else 1) for shape, dtype in kinds)


def is_packed(reduction: Foldable, kinds: Sequence[Kind]) -> bool:
    """True if a state goes into a vector with others, or leaves in tensors of its own."""
    return has_fixed_shape(reduction) and size_of(kinds) <= _SMALL


def pack(states: Sequence[State], device: torch.device) -> Tensor:
    """The numbers of some states, one behind the other."""
    parts = [_numbers(part) for state in states for part in state]
    if all(not part.shape for part in parts):
        return torch.stack(parts) if parts else torch.zeros(0, dtype=wide(device), device=device)
    return torch.cat([part.reshape(-1) for part in parts])


def unpack(vector: Tensor, kinds: Sequence[Kind]) -> State:
    """The state whose numbers a vector begins with."""
    state: list[Tensor] = []
    at = 0
    for shape, dtype in kinds:
        count = size_of(((shape, dtype),))
        part = vector[at : at + count] if shape or dtype.is_complex else vector[at]
        if dtype.is_complex:
            part = torch.complex(*part.view(*shape, 2).unbind(-1))
        part = part.view(shape)
        state.append(part if part.dtype == dtype else part.to(dtype))
        at += count
    return tuple(state)


def wide(device: torch.device) -> torch.dtype:
    """The widest type of numbers that a device has."""
    return torch.float32 if device.type == "mps" else torch.float64


def _numbers(part: Tensor) -> Tensor:
    part = torch.view_as_real(part) if part.is_complex() else part
    dtype = wide(part.device)
    return part if part.dtype == dtype else part.to(dtype)


class Vector:
    """A vector of numbers that are read out state by state, or many at once.

    Args:
        numbers: The vector.
    """

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    @functools.cached_property
    def _on_host(self) -> list[float] | None:
        return self.numbers.tolist() if self.numbers.is_cpu else None

    def state(self, room: Room) -> State:
        """The state that lies there."""
        return unpack(self.numbers[room.start :], room.kinds)

    def column(self, dtype: torch.dtype, at: list[int]) -> Tensor | list[float] | list[int]:
        """The numbers at some places, as Python's where those are at hand and say as much."""
        kind = _SCALARS.get(dtype)
        if self._on_host is not None and kind is not None:
            return [kind(self._on_host[i]) for i in at]
        return self.numbers[at].to(dtype)
