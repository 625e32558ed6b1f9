"""The results of compiled code: for each graph that the compiler made, the layout of its numbers.

A graph returns its statistics of values as one vector; its backward returns those of gradients as
the gradient of one extra input, the carrier. Nothing is written in place, and the only guard that
this adds to the code is that the carrier is still a tensor of its kind.

The carrier is a tensor of zeros that no computation needs. Its gradient, which the graph's backward
makes as it makes that of any input, is the vector of statistics: ``[state, state, ...]``. Each
state has its room, given once while the compiler traces, so the order in which gradients come does
not matter. Where forwards share a carrier, as those of code that is compiled around the model, the
first number is a count: it is 1 after one backward, and another number where autograd has added up
the gradients of several calls, which cannot be separated again. A hook on the carrier keeps the
gradient until a slot is read; then all scalars of one reduction are taken out of the vector at once
(`_Arrangement`) and wait as vectors, like the statistics of `held`.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Numbers, State
from taiyi_fx.passes.probes.accumulate import CLOCK, SlotGroup, fail, note_reason
from taiyi_fx.passes.probes.held import NOT_REACHED, Held
from taiyi_fx.passes.probes.measured import Alike, Measured
from taiyi_fx.passes.probes.packing import (
    Kind,
    Places,
    Room,
    Vector,
    is_packed,
    join,
    pack,
    pack_later,
    size_of,
    unpack,
    wide,
)
from taiyi_fx.passes.probes.retained import keeps_graph
from taiyi_fx.passes.probes.slots import Slot, without_frames

_BROKEN = (
    "the code around the model was compiled with it, in several pieces: compile the model itself, "
    "or fix what fullgraph=True reports"
)
_SUMMED = (
    "several calls of compiled code shared one backward: compile the model itself, not the code "
    "around it"
)
_AGAIN = (
    "several backwards ran through one forward of compiled code, which keeps statistics and no "
    "gradients: their sum is read without torch.compile, or where the losses share one backward"
)
_LOST = (
    "the compiler split an activation checkpoint from the code after it, as it does for "
    "DistributedDataParallel: set torch._dynamo.config.optimize_ddp = False"
)

_KEYS = itertools.count()
READERS: weakref.WeakValueDictionary[str, Reader] = weakref.WeakValueDictionary()
TRACES: weakref.WeakValueDictionary[str, Trace] = weakref.WeakValueDictionary()
"""By their keys, which are constants in compiled code and need no guards."""

Part = tuple[tuple[str, ...], list[Tensor]]
"""Keys of readers and their states: a vector of the packed ones, then the tensors of the others."""


class Reader:
    """The reductions of one tensor in compiled code.

    Args:
        groups: The reductions, with their slots.
    """

    def __init__(self, groups: tuple[SlotGroup, ...]) -> None:
        self.key = f"reader{next(_KEYS)}"
        self.groups = groups
        READERS[self.key] = self

    def entries(self) -> list[Entry]:
        """An entry for each of its reductions."""
        return [Entry(self.key, i) for i in range(len(self.groups))]

    def merge(self, entry: Entry, a: State, b: State) -> State:
        """The merged state of two of one reduction."""
        return self.groups[entry.group][0].merge(a, b)


class Entry(NamedTuple):
    """One reduction of a reader."""

    reader: str
    group: int

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots that take its states."""
        return READERS[self.reader].groups[self.group][1]


@dataclass(eq=False)
class Trace:
    """One graph that the compiler made.

    Attributes:
        held: Takes its results, as vectors, until slots are read.
        is_within: True if the code around the model is compiled with it.
        key: Its name in compiled code.
        kinds: The kinds of each state, once it was measured.
        numbers: The states that follow from shapes, which it need not return.
        refused: The errors of reductions that cannot be measured in it.
        notes: The reasons why readers may get nothing.
        within: The readers in activation checkpoints, those that read at once together.
        values: The position of each state of a value in the results of a forward.
        carriers: The device and the size of each carrier.
        rooms: The position of each state of a gradient in the carriers' gradients.
        reached: The entries that gradients reach, in their order.
        lost: The entries whose states could not be returned.
        arrived: The gradients of each carrier that are still to be unpacked.
        came_again: True if a carrier of this step may have got two gradients of one forward.
        has_run: True if a forward of this step ran it.
        ends: The number of parts of the model that ended in it: one for the whole of a forward.
        place: The name of a forward's results on the board.
        parts: The name of those results there that the forward has not put together yet.
        nothing: All that a forward leaves there on its way, as it is before one.
    """

    held: Held
    is_within: bool
    key: str = field(default_factory=lambda: f"trace{next(_KEYS)}")
    kinds: dict[Entry, tuple[Kind, ...]] = field(default_factory=dict)
    numbers: dict[Entry, Numbers] = field(default_factory=dict)
    refused: dict[Entry, Exception] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    within: dict[tuple[str, ...], None] = field(default_factory=dict)
    values: dict[Entry, Room] = field(default_factory=dict)
    carriers: list[tuple[int, torch.device]] = field(default_factory=list)
    rooms: dict[Entry, Room] = field(default_factory=dict)
    reached: dict[Entry, None] = field(default_factory=dict)
    lost: set[Entry] = field(default_factory=set)
    arrived: list[list[Tensor]] = field(default_factory=list)
    came_again: bool = False
    has_run: bool = False
    ends: int = 0

    def __post_init__(self) -> None:
        TRACES[self.key] = self
        self.place, self.parts = f"{self.key}_left", f"{self.key}_parts"
        self.nothing = dict.fromkeys((self.parts, f"{self.key}_tickets", f"{self.key}_ticket"))
        self._backwards: list[None] = []  # that kept a graph, in this step
        self._zeros: dict[int, Tensor] = {}
        self._of_carriers: dict[int, _Arrangement] = {}
        self._of_values: tuple[dict[Entry, Room], _Arrangement] | None = None

    @property
    def counts(self) -> int:
        """The number of counts that a carrier's gradient begins with."""
        return int(self.is_within)

    def refuse(self, entry: Entry, error: Exception) -> None:
        """Records why a reduction cannot be measured in this graph."""
        self.refused[entry] = without_frames(error)
        self.kinds.pop(entry, None)

    def packed(self, states: Mapping[Entry, State], device: torch.device) -> list[Tensor]:
        """The states of readers that read at once, in the form that the graph returns."""
        small = [s for entry, s in states.items() if self._is_packed(entry)]
        own = [part for e, s in states.items() if not self._is_packed(e) for part in s]
        return [pack_later(small, device), *own]

    def arranged(self, parts: Sequence[Part]) -> tuple[list[Tensor], dict[Entry, Room]]:
        """The states of readers in as few tensors as possible, and the position of each."""
        vectors: dict[torch.device, list[Tensor]] = {}
        sizes: dict[torch.device, int] = {}
        for _, (vector, *_) in parts:
            vectors.setdefault(vector.device, []).append(vector)
        where = {device: i for i, device in enumerate(vectors)}
        tensors = [join(of_device) for of_device in vectors.values()]
        rooms: dict[Entry, Room] = {}
        for readers, (vector, *own) in parts:
            for entry in (e for key in readers for e in READERS[key].entries()):
                if entry not in self.kinds:
                    continue
                kinds = self.kinds[entry]
                if self._is_packed(entry):
                    start = sizes.get(vector.device, 0)
                    rooms[entry] = Room(where[vector.device], start, kinds)
                    sizes[vector.device] = start + size_of(kinds)
                else:
                    rooms[entry] = Room(len(tensors), None, kinds)
                    tensors += own[: len(kinds)]
                    del own[: len(kinds)]
        return tensors, rooms

    def merged(self, before: Sequence[Tensor], left: Sequence[Tensor]) -> list[Tensor]:
        """The merged results of two forwards."""
        packed: dict[int, list[State]] = {}
        made = list(left)
        for entry, room in self.values.items():
            reader = READERS[entry.reader]
            state = reader.merge(entry, _state(before, room), _state(left, room))
            if room.start is None:
                made[room.tensor : room.tensor + len(state)] = state
            else:
                packed.setdefault(room.tensor, []).append(state)
        for tensor, states in packed.items():
            made[tensor] = pack(states, made[tensor].device)
        return made

    def _is_packed(self, entry: Entry) -> bool:
        kinds = self.kinds.get(entry)
        return kinds is None or is_packed(READERS[entry.reader].groups[entry.group][0], kinds)

    def carrier(self, index: int) -> str:
        """The name of a carrier on the board."""
        return f"{self.key}_carrier{index}"

    def carrier_at(self, device: torch.device, numbers: int) -> int:
        """The first carrier on a device; if there was none, a new one of this size."""
        for index, (_, where) in enumerate(self.carriers):
            if where == device:
                return index
        return self.add_carrier(device, numbers)

    def add_carrier(self, device: torch.device, numbers: int) -> int:
        """One more carrier for this many numbers, behind a count if there is one."""
        self.carriers.append((self.counts + numbers, device))
        self.arrived.append([])
        return len(self.carriers) - 1

    def give_room(self, entry: Entry, index: int) -> None:
        """Assigns a state of a gradient its position, in a carrier with room or in a new one."""
        kinds = self.kinds[entry]
        numbers, device = self.carriers[index]
        taken = sum(size_of(r.kinds) for r in self.rooms.values() if r.tensor == index)
        start = self.counts + taken
        if start + size_of(kinds) > numbers:
            index, start = self.add_carrier(device, size_of(kinds)), self.counts
        self.rooms[entry] = Room(index, start, kinds)

    def new_carriers(self) -> dict[str, Tensor]:
        """The carriers for one more forward, by their names."""
        return {self.carrier(index): self.new_carrier(index) for index in range(len(self.carriers))}

    def new_carrier(self, index: int) -> Tensor:
        """A carrier for one more forward; all share the zeros, which nothing reads."""
        zeros = self._zeros.get(index)
        if zeros is None:
            size, device = self.carriers[index]
            zeros = self._zeros[index] = torch.zeros(size, dtype=wide(device), device=device)
        carrier = zeros.detach().requires_grad_()  # in half the time of `zeros`
        backwards = self._backwards if self.is_within else []
        hook = functools.partial(self._take_gradient, index, backwards)
        carrier._backward_hooks = {0: hook}  # the end of `register_hook`
        return carrier

    def _take_gradient(self, index: int, backwards: list[None], gradient: Tensor) -> None:
        """Keeps the gradient of a carrier until a slot is read.

        Args:
            index: The carrier's number.
            backwards: One entry for each backward before this one that kept the carrier's graph,
                or, where all forwards share a carrier, any graph of the step.
            gradient: The gradient.
        """
        self.arrived[index].append(gradient)
        if not torch.compiler.is_compiling():  # as under compiled autograd
            self.came_again |= bool(backwards)
            if keeps_graph():
                backwards.append(None)

    def unpack(self, parts: list[Part] | None, left: list[Tensor] | None) -> None:
        """Folds the results of a forward."""
        for reader, why in self.notes.items():
            note_reason(READERS[reader].groups, why)
        self.has_run = True
        if parts is None:
            if self._of_values is None or self._of_values[0] is not self.values:
                self._of_values = self.values, _Arrangement.of(self.values, self.numbers)
            self._fold(self._of_values[1], left or [])
        elif self.is_within:  # the graph ended before the forward did
            self.refused |= {entry: RuntimeError(_BROKEN) for entry in self.kinds}
        else:
            left, rooms = self.arranged(parts)
            self._fold(_Arrangement.of(rooms, self.numbers), left)
        for entry, error in self.refused.items():
            fail(entry.slots, error)
        for entry in self.lost:
            fail(entry.slots, RuntimeError(_LOST))

    def unpack_gradients(self) -> None:
        """Folds the results of backwards."""
        if self.came_again:
            for entry in self.reached:
                fail(entry.slots, RuntimeError(_AGAIN))
            for arrived in self.arrived:
                arrived.clear()
        have_come = any(self.arrived)
        for index, arrived in enumerate(self.arrived):
            for gradient in arrived:
                if not self.is_within or gradient[0].item() == 1:
                    self._fold(self._of_carrier(index), [gradient])
                else:
                    for entry in self.reached:
                        fail(entry.slots, RuntimeError(_SUMMED))
            arrived.clear()
        if have_come and self.arrived[1:]:  # not carrier by carrier
            _order(slot for entry in self.reached for slot in entry.slots)

    def why_nothing(self, slot: Slot) -> str | None:
        """The reason why a slot is empty, if it waits for a gradient of this graph."""
        is_awaited = self.has_run and any(slot in entry.slots for entry in self.rooms)
        return NOT_REACHED if is_awaited else None

    def drop(self) -> None:
        """Drops the results of backwards, at the end of a step."""
        self.has_run = self.came_again = False
        self._backwards.clear()
        for arrived in self.arrived:
            arrived.clear()

    def _of_carrier(self, index: int) -> _Arrangement:
        known = self._of_carriers.get(index)
        if known is None or known.known != len(self.reached):
            rooms = ((entry, self.rooms[entry]) for entry in self.reached)
            of_index = {e: room._replace(tensor=0) for e, room in rooms if room.tensor == index}
            known = _Arrangement.of(of_index, self.numbers, len(self.reached))
            self._of_carriers[index] = known
        return known

    def _fold(self, arrangement: _Arrangement, tensors: Sequence[Tensor]) -> None:
        vectors = [Vector(x) for x in tensors]
        self.held.measured += arrangement.of_numbers
        for alike, tensor, columns in arrangement.together:
            states = tuple(vectors[tensor].column(dtype, places) for dtype, places in columns)
            self.held.measured.append(Measured(alike, states))
        for entry, room in arrangement.alone.items():
            try:
                is_packed = room.start is not None
                state = vectors[room.tensor].state(room) if is_packed else _state(tensors, room)
                for slot in entry.slots:
                    slot.fold(state)
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                fail(entry.slots, error)
        _order(arrangement.slots)


class _Arrangement(NamedTuple):
    """The order in which to unpack states: those of one reduction at once.

    Attributes:
        of_numbers: The states that follow from shapes.
        together: For each reduction, the vector, and the places of each part's numbers.
        alone: All other states.
        slots: The slots of all, in their order.
        known: The number of states that it was made for.
    """

    of_numbers: list[Measured]
    together: list[tuple[Alike, int, list[tuple[torch.dtype, Places]]]]
    alone: dict[Entry, Room]
    slots: list[Slot]
    known: int

    @classmethod
    def of(
        cls, rooms: Mapping[Entry, Room], numbers: Mapping[Entry, Numbers], known: int = 0
    ) -> _Arrangement:
        """The arrangement of states with these positions, or that follow from shapes."""
        of_shapes: dict[Any, list[Entry]] = {}
        found: dict[Any, list[tuple[Entry, int]]] = {}
        alone: dict[Entry, Room] = {}
        for entry, room in rooms.items():
            reduction = READERS[entry.reader].groups[entry.group][0]
            is_scalar = not any(shape or dtype.is_complex for shape, dtype in room.kinds)
            if entry in numbers:
                of_shapes.setdefault(reduction, []).append(entry)
            elif room.start is None or not is_scalar:
                alone[entry] = room
            else:
                key = reduction, room.tensor, room.kinds
                found.setdefault(key, []).append((entry, room.start))
        of_numbers = [
            Measured(_alike(reduction, some), tuple(zip(*(numbers[e] for e in some), strict=True)))
            for reduction, some in of_shapes.items()
        ]
        together: list[tuple[Alike, int, list[tuple[torch.dtype, Places]]]] = []
        for (reduction, tensor, kinds), some in found.items():
            columns = [
                (dtype, Places([start + i for _, start in some]))
                for i, (_, dtype) in enumerate(kinds)
            ]
            together.append((_alike(reduction, [entry for entry, _ in some]), tensor, columns))
        slots = [slot for entry in rooms for slot in entry.slots]
        return cls(of_numbers, together, alone, slots, known)


def _alike(reduction: Any, entries: Sequence[Entry]) -> Alike:
    return Alike(reduction, [], [entry.slots for entry in entries], [None] * len(entries))


def _order(slots: Iterable[Slot]) -> None:
    for slot, order in zip(slots, CLOCK, strict=False):  # the clock never ends
        slot.order = order


def _state(tensors: Sequence[Tensor], room: Room) -> State:
    if room.start is None:
        return tuple(tensors[room.tensor : room.tensor + len(room.kinds)])
    return unpack(tensors[room.tensor][room.start :], room.kinds)
