"""All numbers of a run in memory, by quantity and mode: 20 bytes each."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.pictures.report.downsample import Numbers, number_type, sorted_numbers
from taiyi_fx.pictures.report.readout import Described, Readout
from taiyi_fx.runs.source import Changed

_Part: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]


class GroupName(NamedTuple):
    """The quantity and mode that the series of a group share."""

    quantity: str
    mode: str


class Group:
    """The numbers of one quantity in one mode.

    Attributes:
        name: The quantity and mode.
        number: The id of the first series of that name, with or without numbers: it never changes.
        series: Ids of series with numbers, in the order of their first number.
        last: The last step with a number; 0 without any.
        version: Grows when numbers arrive for steps that are not later than all before, or that
            the type cannot hold: what a page has of the group is then no longer right.
        kind: The type that holds all numbers: float32 if it has their range.
    """

    def __init__(self, name: GroupName, number: int) -> None:
        self.name = name
        self.number = number
        self.series: dict[int, None] = {}
        self.last = 0
        self.version = 0
        self.kind = number_type(np.empty(0))
        self._parts: list[_Part] = []

    def add(
        self, series: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.float64]
    ) -> None:
        """Adds numbers, at least one, in the order of recording."""
        ids, first = np.unique(series, return_index=True)
        self.series.update(dict.fromkeys(ids[np.argsort(first)].tolist()))
        kind, last = np.promote_types(self.kind, number_type(value)), int(step.max())
        if self._parts:
            self.version += int(step.min()) <= self.last or kind != self.kind
            last = max(last, self.last)
        self.kind, self.last = kind, last
        self._parts.append((series.astype(np.int32), step, value))

    @property
    def size(self) -> int:
        """The number of numbers."""
        return sum(len(step) for _, step, _ in self._parts)

    def steps(self) -> NDArray[np.int64]:
        """All steps with a number, ascending."""
        return np.unique(np.concatenate([np.unique(step) for _, step, _ in self._parts]))

    def numbers(self, order: list[int], after: int | None = None) -> Numbers:
        """All numbers, or those after a step, with series in the given order."""
        parts = [self._later(part, after) for part in self._parts]
        series, step, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        rows = np.zeros(max(order) + 1, np.int64)
        rows[order] = np.arange(len(order))
        return sorted_numbers(len(order), rows[series], step, value)

    def _later(self, part: _Part, after: int | None) -> _Part:
        if after is None:
            return part
        is_later = part[1] > after
        return part[0][is_later], part[1][is_later], part[2][is_later]


class Gathered:
    """All numbers of a run as of the last `update`.

    Attributes:
        generation: Grows when numbers that were read before are gone, as in a run that is resumed.
        series: All series by their ids.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.series: dict[int, Described] = {}
        self._groups: dict[GroupName, Group] = {}
        self._mark: tuple[Any, ...] = ()
        self._known: Any = None

    @property
    def groups(self) -> list[Group]:
        """The groups that have numbers, in the order of their first series."""
        return [group for group in self._groups.values() if group.series]

    def update(self, readout: Readout, identity: object = None) -> None:
        """Reads the numbers that are new.

        Args:
            readout: The source of the numbers.
            identity: A value that identifies the run; if it has changed, everything is read again.
        """
        if identity != self._known:
            self._forget()
        self._known = identity
        try:
            self._take(readout)
        except Changed:
            self._forget()
            self._take(readout)

    def _forget(self) -> None:
        self.generation += 1
        self.series, self._groups, self._mark = {}, {}, ()

    def _take(self, readout: Readout) -> None:
        for series, step, value, mark in readout.slices(self._mark):
            self._name(readout)  # after reading, as each number's series is known then
            self._distribute(series, step, value)
            self._mark = mark
        self._name(readout)

    def _name(self, readout: Readout) -> None:
        self.series = dict(readout.series())
        for i, described in self.series.items():
            name = GroupName(described.name.quantity, described.name.mode)
            self._groups.setdefault(name, Group(name, i))

    def _distribute(
        self, series: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.float64]
    ) -> None:
        if not len(series):
            return
        groups = list(self._groups.values())
        places = {group.name: place for place, group in enumerate(groups)}
        place_of = np.zeros(max(self.series) + 1, np.int32)
        for i, described in self.series.items():
            place_of[i] = places[GroupName(described.name.quantity, described.name.mode)]
        place = place_of[series]
        order = np.argsort(place, kind="stable")
        found, begins = np.unique(place[order], return_index=True)
        parts = np.split(order, begins[1:])
        for i, part in zip(found.tolist(), parts, strict=True):
            groups[i].add(series[part], step[part], value[part])
