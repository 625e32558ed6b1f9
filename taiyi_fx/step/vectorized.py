"""Numbers of many calls at once: readings stacked, and computed as vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Mode, Reading, State
from taiyi_fx.passes.probes.slots import Slot, SlotTable, stacked
from taiyi_fx.record import Series
from taiyi_fx.step.statistics import Found, Key, OfModules, Readings
from taiyi_fx.step.transfer import Column


class Place(NamedTuple):
    """A quantity of a module, at which of its calls in which kind of forward."""

    asked: Subscription
    mode: Mode
    call: int

    @property
    def series(self) -> Series:
        """Its name in records."""
        return self.asked.module + (f"@{self.call}" if self.call else ""), self.asked.label


class Rows(NamedTuple):
    """What is read of the parameters or buffers of many modules.

    Attributes:
        of: All that is read with the same reduction.
        keys: Which of that.
        at: Where they stand in it, if that is one after the other.
    """

    of: OfModules
    keys: tuple[Key, ...]
    at: slice | None


class Stack(NamedTuple):
    """Places that are computed together, all of one quantity.

    Attributes:
        places: Where.
        series: How each is called in records.
        slots: For each reading at calls, that of each place.
        of_modules: For each reading of parameters and buffers, what is read of each place.
    """

    places: tuple[Place, ...]
    series: tuple[Series, ...]
    slots: Mapping[str, tuple[Slot, ...]]
    of_modules: Mapping[str, Rows]

    def only(self, kept: Collection[int]) -> Stack:
        """The same of some of the places."""
        return Stack(
            tuple(self.places[i] for i in kept),
            tuple(self.series[i] for i in kept),
            {name: tuple(slots[i] for i in kept) for name, slots in self.slots.items()},
            {
                name: rows._replace(keys=tuple(rows.keys[i] for i in kept), at=None)
                for name, rows in self.of_modules.items()
            },
        )


def stack(
    group: Sequence[Subscription],
    mode: Mode,
    table: SlotTable,
    of_modules: Sequence[OfModules],
) -> Stack:
    """All calls seen so far of what a group asks for."""
    places = tuple(Place(s, mode, call) for s in group for call in calls_of(s, mode, table))
    series = tuple(place.series for place in places)
    slots: dict[str, tuple[Slot, ...]] = {}
    rows: dict[str, Rows] = {}
    for name, reading in group[0].readings.items():
        if reading.site.port in CALL_PORTS:
            slots[name] = tuple(
                table.at(mode, s.module, call)[s.readings[name]] for s, _, call in places
            )
        else:
            keys = tuple((s.module, s.readings[name]) for s, _, _ in places)
            of = next(of for of in of_modules if of.reduction == reading.reduction)
            rows[name] = Rows(of, keys, _slice_of([of.rows[key] for key in keys]))
    return Stack(places, series, slots, rows)


def _slice_of(rows: Sequence[int]) -> slice | None:
    if not rows or list(rows) != list(range(rows[0], rows[0] + len(rows))):
        return None
    return slice(rows[0], rows[0] + len(rows))


def calls_of(asked: Subscription, mode: Mode, table: SlotTable) -> range:
    """Which calls of a module have been seen; in training there is always a first to look for."""
    if not asked.is_at_calls:
        return range(mode == "train")
    return range(max(table.calls(mode, asked.module), mode == "train"))


def computed(stack: Stack, step: int, readings: Readings) -> tuple[list[Column], list[Place]]:
    """The values of a stack, and what has to be looked at alone as something is different there."""
    kept = _alike(stack, readings)
    alone: list[Place] = []
    if len(kept) < len(stack.places):
        alone = [place for i, place in enumerate(stack.places) if i not in kept]
        stack = stack.only(kept)
    columns = _columns(stack, step, readings) if stack.places else []
    if not all(_is_numbers(column.values, len(stack.places)) for column in columns):
        return [], [*alone, *stack.places]
    return columns, alone


def _is_numbers(values: Tensor, count: int) -> bool:
    return values.shape == (count,) and not values.is_complex()


def _alike(stack: Stack, readings: Readings) -> Collection[int]:
    """The places at which everything was read, and in one way: by Python, or by compiled code."""
    kept: Collection[int] = range(len(stack.places))
    for slots in stack.slots.values():
        if [slot for slot in slots if slot.cells is not None or slot.found is None]:
            kept = _most_alike(slots, kept)
    for rows in stack.of_modules.values():
        if not readings.has_all(rows.of):
            kept = [i for i in kept if readings.has(rows.keys[i])]
    return kept


def _most_alike(slots: Sequence[Slot], kept: Collection[int]) -> Collection[int]:
    ways: tuple[list[int], list[int]] = ([], [])
    for i in kept:
        slot = slots[i]
        if slot.cells is None and slot.found is not None:
            ways[0].append(i)
        elif slot.cells is not None and slot.found is None and not any(s for s, _ in slot.kinds):
            ways[1].append(i)
    return max(ways, key=len)


def _columns(stack: Stack, step: int, readings: Readings) -> list[Column]:
    asked, mode, _ = stack.places[0]
    inputs: dict[str, Any] = {}
    present = None
    for name, slots in stack.slots.items():
        state, present = _of_slots(slots)
        inputs[name] = _finished(asked.readings[name], state, readings)
    for name, rows in stack.of_modules.items():
        inputs[name] = _finished(asked.readings[name], _of_rows(rows, readings), readings)
    value = asked.quantity.compute(**inputs, **asked.arguments)
    parts = value if isinstance(value, Mapping) else {"": value}
    return [
        Column(step, mode, stack.series, suffix, part, present, asked.absence)
        for suffix, part in parts.items()
    ]


def _finished(reading: Reading, state: State, readings: Readings) -> Any:
    return Found(reading, state, readings.factor(reading)).finished()


def _of_slots(slots: Sequence[Slot]) -> tuple[State, Tensor | None]:
    """The states of all, and for those of compiled code the counts of folds."""
    if slots[0].cells is None:
        return stacked([slot.found for slot in slots if slot.found is not None]), None
    numbers = torch.stack([slot.cells[0] for slot in slots if slot.cells is not None])
    return tuple(_column(numbers, slots, i) for i in range(len(slots[0].kinds))), numbers[:, 0]


def _column(numbers: Tensor, slots: Sequence[Slot], part: int) -> Tensor:
    dtypes = {slot.kinds[part][1] for slot in slots}
    column = numbers[:, 1 + part]
    return column.to(dtypes.pop()) if len(dtypes) == 1 else column


def _of_rows(rows: Rows, readings: Readings) -> State:
    if rows.at is not None and readings.has_all(rows.of):
        return readings.rows(rows.of, rows.at)
    return stacked([readings.of_module(key) for key in rows.keys])
