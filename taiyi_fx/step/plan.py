"""Plans of due steps that read the same as the one before: statistics from vectors, no slots.

On the CPU most statistics come as numbers of Python. They stay so until a function of tensors needs
them: the values of quantities that are their reading, such as norms, are never in a tensor.

A step's statistics are a few vectors: those that were measured together when backward ended, those
of parameters, and one of the numbers that single slots hold. Statistics that are no numbers, as
covariances, are taken as they were measured together, to the thread that decomposes them. The
positions of each quantity's
statistics in them are looked up once, and kept while the same tensors are measured together. If
anything is different in a group of calls (no gradient came, a reading failed), that group is
computed from slots, which takes longer.
"""

from __future__ import annotations

import itertools
import operator
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from taiyi_fx.passes.ir import CALL_PORTS, Reading, State, States, finishes_as_is
from taiyi_fx.passes.probes.measured import Alike, Measured
from taiyi_fx.passes.probes.packing import Places
from taiyi_fx.passes.probes.slots import Slot, in_tensors
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.records.record import Block, Series
from taiyi_fx.reductions.rows import on_device
from taiyi_fx.step.due import DueWork
from taiyi_fx.step.evaluate import LARGE, group_of
from taiyi_fx.step.host import beside, device_of
from taiyi_fx.step.parameters import Key
from taiyi_fx.step.statistics import UNSCALED, Scale, Statistics
from taiyi_fx.step.vectorized import in_batches
from taiyi_fx.step.work import Batch, Statistic, Work

_NUMBERS = -1
"""In place of the index of a measured vector, where statistics are numbers."""


class Pool(NamedTuple):
    """The places of all numbers of one reduction that a plan takes, or of some of its states.

    Attributes:
        reading: One of the readings behind them.
        vectors: The indices of the measured vectors that they are in.
        within: The slots whose statistics these are.
        parameters: The rows of parameters that they are in; None if none of them are.
        single: The slots that hold a number themselves.
        order: The indices to take of all these, one after the other: group by group. None where
            they are in one place, in their order.
    """

    reading: Reading
    vectors: tuple[int, ...]
    within: frozenset[Slot]
    parameters: Mapping[Key, int] | None
    single: tuple[Slot, ...]
    order: Places | None

    def states(
        self, measured: Sequence[Measured], touched: Iterable[Slot], statistics: Statistics
    ) -> States | None:
        """The statistics of all groups; None if this step does not fit.

        Args:
            measured: The statistics that were measured together.
            touched: The slots that may hold a statistic themselves, or have failed.
            statistics: The other statistics of the step.
        """
        for slot in touched:
            is_folded = slot.found is not None or slot.failure is not None
            if is_folded and slot in self.within:  # which has to be merged with it
                return None
        try:
            every: list[States] = []
            for i in self.vectors:  # a comprehension would be one more function
                every.append(measured[i].states)  # noqa: PERF401
            if self.parameters is not None:
                states, rows = statistics.parameters.vectors[self.reading.reduction]
                if rows is not self.parameters and rows != self.parameters:
                    return None
                every.append(states)
            if self.single:
                found: list[Any] = [*map(_found_in, self.single)]
                if None in found:
                    return None
                every.append(tuple(zip(*found, strict=True)))
            joined: list[Any] = []
            for pieces in zip(*every, strict=True):
                joined.append(_joined(pieces, self.order))  # noqa: PERF401 - likewise
            return tuple(joined)
        except Exception:  # noqa: BLE001 - computing each alone shows which one failed
            return None


_found_in, _of = operator.attrgetter("found"), operator.attrgetter("of")


def _joined(pieces: Sequence[Any], order: Places | None) -> Tensor | list[int | float]:
    """Numbers, and vectors of such, in an order: as one vector, unless all are Python's."""
    if order is None:
        (piece,) = pieces
        return torch.stack(piece) if isinstance(piece, tuple) else _vector(piece, None)
    if Tensor not in map(type, pieces):
        flat = list(itertools.chain.from_iterable(pieces))
        if Tensor not in map(type, flat):
            return list(map(flat.__getitem__, order.at))
    vectors = [p if isinstance(p, Tensor) else torch.stack(in_tensors(p)) for p in pieces]
    device = device_of(vectors)
    return order.of(torch.cat([beside(vector, device) for vector in vectors]))


def _vector(numbers: Tensor | Sequence[int | float], device: torch.device | None) -> Tensor:
    """Numbers as a vector; on the host without a device."""
    if isinstance(numbers, Tensor):
        return beside(numbers, device)
    code, kind = ("q", torch.int64) if isinstance(numbers[0], int) else ("d", torch.float64)
    if device is not None:
        return on_device(numbers, device, kind)
    # Cache misses take most of the time, and this runs the least of torch's code.
    return torch.frombuffer(array(code, numbers), dtype=kind)


class Group(NamedTuple):
    """Calls of one quantity that are computed together.

    Attributes:
        works: The calls.
        series: Their names in records.
        sources: For each parameter of the quantity's function its name, the reading, the index of
            the pool, and the part of it; None for all of it.
        is_its_reading: True if the finished numbers of its only reading are its values.
    """

    works: list[Work]
    series: tuple[Series, ...]
    sources: list[tuple[str, Reading, int, slice | None]]
    is_its_reading: bool

    def found(
        self,
        step: int,
        pools: Sequence[States | None],
        scale: Scale,
        device: torch.device | None,
    ) -> Batch | Block | None:
        """Its values, or the statistics to compute them from; None if this step does not fit.

        Args:
            step: The step.
            pools: The numbers.
            scale: The factor of the step's gradients.
            device: Of the numbers that are not on the host; None if all are.
        """
        statistics: dict[str, Statistic] = {}
        try:
            for name, reading, pool, share in self.sources:
                states = pools[pool]
                if states is None:
                    return None
                factor = 1.0 if scale is UNSCALED else scale.factor(reading)
                state = cast(State, states)  # without a share, all of it is in tensors
                if share is not None:
                    if self.is_its_reading and factor == 1.0 and type(states[0]) is list:
                        return Block(step, self.works[0].mode, self.series, states[0][share])
                    state = tuple([_vector(part[share], device) for part in states])
                statistics[name] = Statistic(reading, state, factor)
        except Exception:  # noqa: BLE001 - computing each alone shows which one failed
            return None
        return Batch(self.works, self.series, statistics)


class Plan(NamedTuple):
    """The calls to compute from vectors, valid as long as the same tensors are measured together.

    Attributes:
        alike: The slots that were measured together.
        places: All calls.
        pools: The places of their statistics.
        groups: The calls computed from vectors; None until the same step was seen twice.
        rest: The other calls.
        needs_slots: True if one of these needs a statistic that is in a vector.
    """

    alike: list[Alike]
    places: list[Work]
    pools: list[Pool]
    groups: list[Group] | None
    rest: list[Work]
    needs_slots: bool

    def fits(self, alike: list[Alike], places: list[Work]) -> bool:
        """True if a step has the same calls, and measured the same tensors together."""
        is_same = self.places is places and len(alike) == len(self.alike)
        return is_same and all(map(operator.is_, alike, self.alike))


class Planner:
    """Makes plans for combinations of work that are due repeatedly.

    Args:
        table: The statistics of readings at calls.
    """

    def __init__(self, table: SlotTable) -> None:
        self._table = table
        self._held = table.board.held
        self._plans: dict[DueWork, Plan] = {}
        self._misses: Counter[DueWork] = Counter()

    def planned(
        self, due: DueWork, step: int, places: list[Work], statistics: Statistics
    ) -> tuple[list[Block], list[Batch], list[Work]]:
        """The values that are there, the calls to compute from vectors, and those from slots."""
        measured, scale = self._held.measured, statistics.scale
        alike, plan = [*map(_of, measured)], self._plans.get(due)
        if plan is None or plan.groups is None or not plan.fits(alike, places):
            plan = self._plans[due] = self._next(plan, alike, places, statistics)
        touched = self._table.board.touched.values()
        pools: list[States | None] = []
        for pool in plan.pools:  # a comprehension would be one more function
            pools.append(pool.states(measured, touched, statistics))  # noqa: PERF401
        device = device_of(part for states in pools for part in states or ())
        blocks: list[Block] = []
        batches: list[Batch] = []
        missed: list[Work] = []
        for group in plan.groups or ():
            found = group.found(step, pools, scale, device)
            if found is None:
                missed += group.works
            elif isinstance(found, Block):
                blocks.append(found)
            else:
                batches.append(found)
        if missed:
            self._misses[due] += 1
            if self._misses[due].bit_count() == 1:  # after 1, 2, 4, 8, ... misses a new one is made
                del self._plans[due]
        if missed or plan.needs_slots:
            self._held.settle()
        rest = self._in_order(places, [*plan.rest, *missed]) if missed else plan.rest
        return blocks, batches, rest

    def _next(
        self, last: Plan | None, alike: list[Alike], places: list[Work], statistics: Statistics
    ) -> Plan:
        """The plan for a step: one without groups until the same was seen twice."""
        if last is None or not last.fits(alike, places):
            return Plan(alike, places, [], None, places, needs_slots=True)
        sources = _Sources(self._table, self._held.measured, statistics)
        done, rest = in_batches(places, sources.kind, sources.group, fewest=1)
        rest = self._in_order(places, rest)
        needs_slots = any(map(sources.are_in_vectors, rest))
        return Plan(alike, places, sources.pools(), [g for _, g in done], rest, needs_slots)

    def _in_order(self, places: list[Work], some: list[Work]) -> list[Work]:
        order = {id(work): i for i, work in enumerate(places)}
        return sorted(some, key=lambda work: order[id(work)])


class _Sources:
    """Finds where in a step's vectors and slots the statistics of calls are."""

    def __init__(
        self, table: SlotTable, measured: Sequence[Measured], statistics: Statistics
    ) -> None:
        self._table = table
        self._measured = measured
        self._parameters = statistics.parameters
        self._at: dict[Slot, tuple[int, int] | None] = {}
        for i, some in enumerate(measured):
            for row, slots in enumerate(some.of.slots):
                for slot in slots:  # slots that occur twice have to be merged
                    self._at[slot] = None if slot in self._at else (i, row)
        # Of each reduction the calls whose numbers are taken, group by group; and of some slots
        # those whose states are, which all quantities of them share.
        self._taken: dict[tuple[Any, tuple[Slot, ...]], list[tuple[Work, Reading]]] = {}

    def kind(self, work: Work) -> Hashable:
        """The group of a call that can be computed from vectors; None for others."""
        group = group_of(work)
        if group is None:
            return None
        places = [self._place_of(work, reading) for reading in work.asked.readings.values()]
        return None if None in places else (group, *places)

    def group(self, works: list[Work]) -> Group:
        """The calls as a group."""
        sources: list[tuple[str, Reading, int, slice | None]] = []
        for name, reading in works[0].asked.readings.items():
            calls = [(work, work.asked.readings[name]) for work in works]
            share = None
            if self._place_of(works[0], reading) == _NUMBERS:
                key = reading.reduction, ()
                taken = self._taken.setdefault(key, [])
                share = slice(len(taken), len(taken) + len(works))
                taken += calls
            else:
                key = reading.reduction, tuple([self._slot(*call) for call in calls])
                self._taken[key] = calls
            sources.append((name, reading, list(self._taken).index(key), share))
        is_its_reading = works[0].asked.quantity.is_its_reading and all(
            finishes_as_is(reading.reduction) for _, reading, _, _ in sources
        )
        return Group(works, tuple([work.series for work in works]), sources, is_its_reading)

    def pools(self) -> list[Pool]:
        """The pools of all groups."""
        return [
            self._pool(every, are_numbers=not slots) for (_, slots), every in self._taken.items()
        ]

    def _pool(self, every: list[tuple[Work, Reading]], *, are_numbers: bool) -> Pool:
        of_calls = [(w, r) for w, r in every if r.site.port in CALL_PORTS]
        slots = dict.fromkeys(self._slot(work, reading) for work, reading in of_calls)
        within = tuple(slot for slot in slots if self._at.get(slot) is not None)
        single = tuple(slot for slot in slots if self._at.get(slot) is None)
        vectors = sorted({at[0] for slot in within if (at := self._at[slot]) is not None})
        starts: dict[int, int] = {}
        length = 0
        for i in vectors:
            starts[i], length = length, length + len(self._measured[i].of.slots)
        found = (
            None
            if len(of_calls) == len(every)
            else self._parameters.vectors.get(every[0][1].reduction)
        )
        parameters = None if found is None else found[1]
        first, first_single = length, length + len(parameters or ())
        places = {slot: first_single + i for i, slot in enumerate(single)}
        for slot in within:
            i, row = self._at[slot] or (0, 0)
            places[slot] = starts[i] + row

        def place(work: Work, reading: Reading) -> int:
            if reading.site.port in CALL_PORTS:
                return places[self._slot(work, reading)]
            return first + (parameters or {})[work.asked.module, reading]

        at = [place(*pair) for pair in every]
        is_as_it_is = not are_numbers and at == [*range(first_single + len(single))]
        order = None if is_as_it_is else Places(at)
        return Pool(every[0][1], tuple(vectors), frozenset(within), parameters, single, order)

    def are_in_vectors(self, work: Work) -> bool:
        """True if a statistic of a call is in a vector."""
        readings = work.asked.readings.values()
        slots = [self._slot(work, r) for r in readings if r.site.port in CALL_PORTS]
        return any(slot in self._at for slot in slots)

    def _slot(self, work: Work, reading: Reading) -> Slot:
        return self._table.at(work.mode, work.asked.module, work.call)[reading]

    def _place_of(self, work: Work, reading: Reading) -> Hashable:
        """The same for statistics that can be joined; None for one that stays alone.

        That is the index of a vector, the kind of a state in a slot, or `_NUMBERS`.
        """
        if reading.site.port not in CALL_PORTS:
            vectors = self._parameters.vectors_with((work.asked.module, reading))
            return _NUMBERS if vectors is not None and _are_numbers(vectors[0]) else None
        slot = self._slot(work, reading)
        if slot.failure is not None:
            return None
        at = self._at.get(slot)
        if at is not None:
            states = self._measured[at[0]].states
            are_tensors = all(isinstance(part, Tensor) for part in states)
            index = _NUMBERS if _are_numbers(states) else at[0] if are_tensors else None
            return index if slot.found is None else None
        if slot.found is None or slot in self._at:
            return None
        parts = [x for x in slot.found if isinstance(x, Tensor)]
        if not any(part.ndim for part in parts):
            return _NUMBERS
        is_small = sum(part.numel() for part in parts) <= LARGE
        are_tensors = is_small and len(parts) == len(slot.found)
        return tuple([(x.shape, x.dtype, x.device) for x in parts]) if are_tensors else None


def _are_numbers(states: States) -> bool:
    return not any(isinstance(part, Tensor) and part.ndim > 1 for part in states)
