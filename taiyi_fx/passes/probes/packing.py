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
_STATES = "taiyi_fx"
_SCALARS = {torch.float64: float, torch.int64: int}


class Room(NamedTuple):
    """The position of a state in tensors.

    Attributes:
        tensor: The index of the tensor; without a start, that of the first tensor of its own.
        start: The index of its first number there, or None if it has tensors of its own.
        kinds: The kinds of its parts.
    """

    tensor: int
    start: int | None
    kinds: tuple[Kind, ...]


def kinds_of(state: State, *, is_fixed: bool) -> tuple[Kind, ...]:
    """The kinds of a state's parts; without a shape where the compiler left a size open."""
    return tuple((_shape_of(part, is_fixed=is_fixed), part.dtype) for part in state)


def _shape_of(part: Tensor, *, is_fixed: bool) -> tuple[int, ...]:
    if not is_fixed and is_left_open(part):
        return ()
    # This fixes a size that the compiler left open: `range` needs its number, `int` does not.
    return tuple(len(range(n)) for n in part.shape)


def is_left_open(x: Tensor) -> bool:
    """True if the same compiled code runs for tensors of other sizes."""
    return any(isinstance(n, torch.SymInt) for n in x.shape)


def size_of(kinds: Sequence[Kind]) -> int:
    """The number of elements in a state of these kinds."""
    return sum(math.prod(shape) * (2 if dtype.is_complex else 1) for shape, dtype in kinds)


def is_packed(reduction: Foldable, kinds: Sequence[Kind]) -> bool:
    """True if a state shares a vector with others; False if it has tensors of its own."""
    return has_fixed_shape(reduction) and size_of(kinds) <= _SMALL


def pack(states: Sequence[State], device: torch.device) -> Tensor:
    """The numbers of some states, concatenated."""
    parts = [_numbers(part) for state in states for part in state]
    if all(not part.shape for part in parts):
        return torch.stack(parts) if parts else torch.zeros(0, dtype=wide(device), device=device)
    return torch.cat([part.reshape(-1) for part in parts])


def pack_later(states: Sequence[State], device: torch.device) -> Tensor:
    """The same, to be packed with others by `join`: the compiler drops this vector then."""
    vector = pack(states, device)
    vars(vector)[_STATES] = states
    return vector


def join(vectors: Sequence[Tensor]) -> Tensor:
    """The numbers of some vectors of one device, concatenated."""
    # One made of all numbers at once: the compiler would make copies of copies.
    states = [state for vector in vectors for state in vars(vector).get(_STATES, ((vector,),))]
    return pack(states, vectors[0].device) if vectors[1:] else vectors[0]


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
    """The widest floating-point type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def _numbers(part: Tensor) -> Tensor:
    part = torch.view_as_real(part) if part.is_complex() else part
    dtype = wide(part.device)
    return part if part.dtype == dtype else part.to(dtype)


class Places:
    """Indices of numbers in vectors of any device, copied to each device once.

    Args:
        at: The indices.
    """

    def __init__(self, at: list[int]) -> None:
        self.at = at
        self._on: dict[torch.device, Tensor] = {}

    def of(self, vector: Tensor) -> Tensor:
        """The numbers of a vector that are there; the host waits at the first of a device."""
        found = self._on.get(vector.device)
        if found is None:
            found = torch.tensor(self.at, dtype=torch.int64, device=vector.device)
            self._on[vector.device] = found
        return vector[found]


class Vector:
    """A vector of packed states, read state by state or many at once.

    Args:
        numbers: The vector.
    """

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    @functools.cached_property
    def _on_host(self) -> list[float] | None:
        return self.numbers.tolist() if self.numbers.is_cpu else None

    def state(self, room: Room) -> State:
        """The state at a position."""
        return unpack(self.numbers[room.start :], room.kinds)

    def column(self, dtype: torch.dtype, places: Places) -> Tensor | list[float] | list[int]:
        """The numbers at some places, as Python's where these are available and exact."""
        kind = _SCALARS.get(dtype)
        if self._on_host is not None and kind is not None:
            return [kind(self._on_host[i]) for i in places.at]
        return places.of(self.numbers).to(dtype)
