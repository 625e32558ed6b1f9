"""All statistics of one rank at one step as one vector of bytes, which one collective exchanges.

The vector holds, in this order: the shapes of what is not a scalar, a count for each reading, and
the elements by type. Its layout is agreed on once for each set of due readings, and again when a
rank has something that has no place in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Mode, State

Key = tuple[Mode, int, int]
"""Mode, number of the reading, and call."""

_FAILED = -1
_ALIGNED = 16


class Offer(NamedTuple):
    """The statistic that a rank has of one reading.

    Attributes:
        state: The statistic; None if the reading failed.
    """

    state: State | None


class Part(NamedTuple):
    """Room for one tensor of a statistic."""

    dtype: torch.dtype
    numel: int
    ndim: int

    @staticmethod
    def of(tensor: Tensor) -> Part:
        """The room that a tensor takes."""
        return Part(tensor.dtype, tensor.numel(), tensor.ndim)

    def and_of(self, other: Part) -> Part:
        """Room for either."""
        dtype = torch.promote_types(self.dtype, other.dtype)
        return Part(dtype, max(self.numel, other.numel), max(self.ndim, other.ndim))


Room = dict[Key, tuple[Part, ...]]
"""Room for the statistics of some readings."""


def room_of(offers: Mapping[Key, Offer]) -> Room:
    """The room that some offers take."""
    return {key: tuple(map(Part.of, offer.state or ())) for key, offer in offers.items()}


def common_room(rooms: Iterable[Room]) -> Room:
    """Room for what any of several ranks has, in an order that is the same on all of them."""
    found: Room = {}
    for room in rooms:
        for key, parts in room.items():
            had = found.get(key) or parts
            # Of another number of parts it would be no statistic of this reduction.
            both = zip(had, parts if len(parts) == len(had) else had, strict=True)
            found[key] = tuple(a.and_of(b) for a, b in both)
    return {key: found[key] for key in sorted(found)}


class Layout:
    """The place of each statistic in the vector.

    Args:
        room: The room for each statistic.
        device: The device of the vectors.

    Attributes:
        nbytes: The vector's length.
        shaped: The parts that are no scalars, each with the axes that there is room for.
        head_bytes: Of it, the shapes and counts.
        head_length: The numbers before the counts.
        segment_bytes: The start and end of the elements of each type.
        offsets: The start of each part of a statistic, among the elements of its type.
    """

    def __init__(self, room: Room, device: torch.device) -> None:
        self.room = room
        self.device = device
        self._segments: dict[torch.dtype, list[tuple[Key, int]]] = {}
        self.offsets: dict[tuple[Key, int], int] = {}
        sizes: dict[torch.dtype, int] = {}
        for key, parts in room.items():
            for i, part in enumerate(parts):
                self._segments.setdefault(part.dtype, []).append((key, i))
                self.offsets[key, i] = sizes.get(part.dtype, 0)
                sizes[part.dtype] = self.offsets[key, i] + part.numel
        self.shaped = [
            ((key, i), part.ndim)
            for key, parts in room.items()
            for i, part in enumerate(parts)
            if part.ndim
        ]
        self.head_length = sum(1 + ndim for _, ndim in self.shaped)
        self.segment_bytes: dict[torch.dtype, tuple[int, int]] = {}
        self.head_bytes = self.nbytes = _aligned(8 * max(self.head_length + len(room), 1))
        for dtype, size in sizes.items():
            end = self.nbytes + size * dtype.itemsize
            self.segment_bytes[dtype] = self.nbytes, end
            self.nbytes = _aligned(end)
        self._counts = {n: torch.full((), n, device=device) for n in (_FAILED, 0, 1)}
        self._zeros: dict[torch.dtype, Tensor] = {}
        self._last_head: tuple[tuple[int, ...], Tensor] | None = None

    def fits(self, key: Key, offer: Offer) -> bool:
        """True if there is room for an offer."""
        if key not in self.room or offer.state is None:
            return key in self.room
        parts = self.room[key]
        return len(offer.state) == len(parts) and all(
            part.and_of(Part.of(tensor)) == part
            for tensor, part in zip(offer.state, parts, strict=True)
        )

    def packed(self, offers: Mapping[Key, Offer]) -> Tensor:
        """The vector of a rank's offers, which fit."""
        counts = [count.reshape(1) for count in self._counted(offers)]
        joined = torch.cat([self._head(offers), *counts]).view(torch.uint8)
        segments = [_padded(joined, self.head_bytes)]
        for dtype in self._segments:
            flat = torch.cat([*self._elements(dtype, offers)]).view(torch.uint8)
            segments.append(_padded(flat, _aligned(len(flat))))
        return torch.cat(segments)

    def _head(self, offers: Mapping[Key, Offer]) -> Tensor:
        numbers = tuple(self._shapes(offers))
        if self._last_head is None or self._last_head[0] != numbers:
            # Pinned memory would save nothing: shapes rarely change from one step to the next.
            made = torch.tensor(numbers, dtype=torch.int64, device=self.device)
            self._last_head = numbers, made
        return self._last_head[1]

    def _shapes(self, offers: Mapping[Key, Offer]) -> Iterator[int]:
        for (key, i), most in self.shaped:
            state = offers[key].state if key in offers else None
            shape = () if state is None else state[i].shape
            yield from (len(shape), *shape, *[0] * (most - len(shape)))

    def _counted(self, offers: Mapping[Key, Offer]) -> Iterator[Tensor]:
        for key in self.room:
            offer = offers.get(key)
            if offer is None:
                yield self._counts[0]
            else:
                yield self._counts[_FAILED if offer.state is None else 1]

    def _elements(self, dtype: torch.dtype, offers: Mapping[Key, Offer]) -> Iterator[Tensor]:
        nothing = self._nothing(dtype)
        for key, i in self._segments[dtype]:
            numel, state = self.room[key][i].numel, offers[key].state if key in offers else None
            if state is not None:
                yield self._here(state[i], dtype)
                numel -= state[i].numel()
            if numel:
                yield nothing[:numel]

    def _here(self, part: Tensor, dtype: torch.dtype) -> Tensor:
        """The elements of a part of a state; a number of the host without waiting for a device."""
        if part.is_cpu and part.numel() == 1 and self.device.type != "cpu":
            return torch.full((1,), part.item(), dtype=dtype, device=self.device)
        return part.reshape(-1).to(self.device, dtype)

    def _nothing(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._zeros:
            largest = max(self.room[key][i].numel for key, i in self._segments[dtype])
            self._zeros[dtype] = torch.zeros(largest, dtype=dtype, device=self.device)
        return self._zeros[dtype]


class Rows:
    """The statistics that all ranks sent, on the host.

    Attributes:
        present: By reading, a mask of the ranks that have made it; without readings of none.
        failed: By reading, a mask of the ranks where it failed; without readings of none.
    """

    def __init__(self, layout: Layout, rows: Tensor) -> None:
        self._layout = layout
        self._segments = {
            dtype: rows[:, start:end].contiguous().view(dtype)
            for dtype, (start, end) in layout.segment_bytes.items()
        }
        length, end = layout.head_length, layout.head_length + len(layout.room)
        numbers = rows[:, : layout.head_bytes].contiguous().view(torch.int64)
        counts = numbers[:, length:end].T
        self.present = _where_any(layout.room, counts > 0)
        self.failed = _where_any(layout.room, counts < 0)
        self._shapes = [self._shapes_of(row) for row in numbers[:, :length].tolist()]

    def _shapes_of(self, numbers: Sequence[int]) -> dict[tuple[Key, int], tuple[int, ...]]:
        found, start = {}, 0
        for of_part, most in self._layout.shaped:
            ndim = numbers[start]
            found[of_part] = tuple(numbers[start + 1 : start + 1 + ndim])
            start += 1 + most
        return found

    def common_shapes(self, key: Key) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of each rank's statistic that has one; None where they differ."""
        parts = self._layout.room[key]
        if not any(part.ndim for part in parts):
            return ((),) * len(parts)
        places = self.present[key].nonzero().flatten().tolist()
        shapes = {self.shapes(key, place) for place in places}
        return shapes.pop() if len(shapes) == 1 else None

    def shapes(self, key: Key, place: int) -> tuple[tuple[int, ...], ...]:
        """The shapes of one rank's statistic."""
        parts = range(len(self._layout.room[key]))
        return tuple(self._shapes[place].get((key, i), ()) for i in parts)

    def dtypes(self, key: Key) -> tuple[torch.dtype, ...]:
        """The types of a statistic's parts."""
        return tuple(part.dtype for part in self._layout.room[key])

    def state(self, key: Key, place: int) -> State:
        """One rank's statistic."""
        return tuple(
            self._part(key, i)[place, : math.prod(shape)].view(shape)
            for i, shape in enumerate(self.shapes(key, place))
        )

    def states(self, key: Key, shapes: Sequence[tuple[int, ...]]) -> State:
        """The statistics of all ranks, all of these shapes, along a new first axis."""
        places = len(self._shapes)
        return tuple(
            self._part(key, i)[:, : math.prod(shape)].reshape(places, *shape)
            for i, shape in enumerate(shapes)
        )

    def _part(self, key: Key, i: int) -> Tensor:
        part, start = self._layout.room[key][i], self._layout.offsets[key, i]
        return self._segments[part.dtype][:, start : start + part.numel]


def _aligned(n: int) -> int:
    return -(-n // _ALIGNED) * _ALIGNED


def _padded(x: Tensor, n: int) -> Tensor:
    return x if len(x) == n else torch.cat([x, x.new_zeros(n - len(x))])


def _where_any(keys: Iterable[Key], is_so: Tensor) -> dict[Key, Tensor]:
    some = is_so.any(1).tolist()
    return {key: row for key, row, any_of_it in zip(keys, is_so, some, strict=True) if any_of_it}
