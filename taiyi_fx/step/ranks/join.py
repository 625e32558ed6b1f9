"""Joins the statistics of several ranks on the one that records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Mode
from taiyi_fx.passes.probes.slots import Slot, in_tensors
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.records.record import Series
from taiyi_fx.step.ranks.bucket import Key, Offer
from taiyi_fx.step.ranks.exchange import Exchange, NotSent
from taiyi_fx.step.ranks.gate import NotJoined
from taiyi_fx.step.ranks.group import Ranks
from taiyi_fx.step.ranks.union import Union
from taiyi_fx.step.statistics import Statistics
from taiyi_fx.step.work import Asked, Work

UNEVEN = (
    "DistributedDataParallel.join() lets a rank end before the others, which its statistics would "
    "then be missing to: give join(throw_on_early_termination=True), or instrument(..., "
    "process_group=None) for each rank's own numbers"
)

_MODES: tuple[Mode, ...] = ("train", "eval")


class Join:
    """Joins the readings of several ranks, by one collective at each step that asks for some.

    Args:
        ranks: The ranks to join.
        subscriptions: All subscriptions, the same on all of them.
        table: The statistics of readings at calls.
    """

    def __init__(
        self, ranks: Ranks, subscriptions: Sequence[Subscription], table: SlotTable
    ) -> None:
        self.ranks = ranks
        self._table = table
        # Readings may not travel; their numbers are the same on all ranks.
        every = dict.fromkeys((s.module, r) for s in subscriptions for r in s.readings.values())
        self._numbers = {of: i for i, of in enumerate(every)}
        self._exchanges: dict[int, Exchange] = {}

    def joined(
        self,
        step: int,
        works: list[Work],
        asked: Sequence[Asked],
        statistics: Statistics,
        failures: dict[Series, str],
    ) -> list[Work]:
        """The work of all ranks on the one that records, none on the others.

        All ranks call it together at each step that asks for something. Where they do not, the
        one that records goes on with what it has alone.

        Args:
            step: The step.
            works: The work that this rank has statistics for.
            asked: The subscriptions that are due: the same object whenever they are the same.
            statistics: The statistics of this rank.
            failures: Reasons for missing values, by series. Afterwards only those of failures on
                this rank and, on the rank that records, of values that no rank has.
        """
        incomplete = [*self._incomplete(works, asked)]
        failed = dict(self._failed(incomplete))
        offers = {
            **{key: Offer(None) for key in failed},
            **dict(self._parts(incomplete)),
            **dict(self._offered(works, statistics)),
        }
        rows, why = None, ""
        try:
            rows = self._exchange(asked, statistics).rows(step, offers)
        except NotJoined:
            why = "the ranks are not joined any longer, which was warned of"
        except NotSent as error:
            why = str(error)
        if not self.ranks.is_writer:
            for series in failures.keys() - failed.values():
                del failures[series]
            return []
        if why:
            return list(_alone(works, statistics, failures, why))
        if rows is None:
            return works
        return list(Union(rows, self._numbers, self.ranks, statistics).works(asked, failures))

    def fail(
        self, step: int, asked: Sequence[Asked], statistics: Statistics, error: Exception
    ) -> None:
        """Says in the place of `joined` that this rank has nothing of a step."""
        with suppress(NotJoined):
            self._exchange(asked, statistics).fail(step, f"{type(error).__name__}: {error}")

    def _exchange(self, asked: Sequence[Asked], statistics: Statistics) -> Exchange:
        if id(asked) not in self._exchanges:
            names = [(s.module, s.label, is_emitted) for s, is_emitted in asked]
            due = hashlib.blake2b(repr(names).encode(), digest_size=8).hexdigest()
            is_needed = any(_is_of_ranks(subscription, statistics) for subscription, _ in asked)
            self._exchanges[id(asked)] = Exchange(self.ranks, due, is_needed=is_needed)
        return self._exchanges[id(asked)]

    def _incomplete(
        self, works: Sequence[Work], asked: Sequence[Asked]
    ) -> Iterator[tuple[Subscription, Mode, int]]:
        """The subscriptions and calls of which this rank lacks a reading."""
        have = {(id(work.asked), work.mode, work.call) for work in works}
        for subscription, _ in asked:
            if not subscription.is_at_calls:
                continue
            for mode in _MODES:
                for call in range(self._table.calls(mode, subscription.module)):
                    if (id(subscription), mode, call) not in have:
                        yield subscription, mode, call

    def _slots(self, asked: Subscription, mode: Mode, call: int) -> list[tuple[Key, Slot]]:
        """The slots of a call, each with the key of its reading."""
        slots = self._table.at(mode, asked.module, call)
        return [
            ((mode, self._numbers[asked.module, reading], call), slots[reading])
            for reading in asked.readings.values()
            if reading in slots
        ]

    def _failed(
        self, incomplete: Sequence[tuple[Subscription, Mode, int]]
    ) -> Iterator[tuple[Key, Series]]:
        """The readings that raised on this rank, each with a series that lacks it."""
        for asked, mode, call in incomplete:
            name = asked.module + (f"@{call}" if call else "")
            for key, slot in self._slots(asked, mode, call):
                if slot.failure is not None:
                    yield key, (name, asked.label)

    def _parts(
        self, incomplete: Sequence[tuple[Subscription, Mode, int]]
    ) -> Iterator[tuple[Key, Offer]]:
        """The parts of tensors that this rank reduced, where it lacks what another reads whole."""
        for asked, mode, call in incomplete:
            slots = self._slots(asked, mode, call)
            lacking = [slot for _, slot in slots if slot.found is None]
            if lacking and all(s.ranks is not None and s.failure is None for s in lacking):
                for key, slot in slots:
                    if slot.ranks is not None and slot.state is not None:
                        yield key, Offer(slot.state)

    def _offered(
        self, works: Sequence[Work], statistics: Statistics
    ) -> Iterator[tuple[Key, Offer]]:
        for work in works:
            asked = work.asked
            for found in (work.statistics or {}).values():
                key = work.mode, self._numbers[asked.module, found.reading], work.call
                if found.reading.site.port not in CALL_PORTS:
                    if statistics.is_in_parts(asked.module, found.reading):
                        yield key, Offer(in_tensors(found.state))
                    continue
                slot = self._table.at(work.mode, asked.module, work.call)[found.reading]
                if slot.ranks is not None or self.ranks.brings_rows:
                    yield key, Offer(in_tensors(found.state))


def _alone(
    works: Sequence[Work], statistics: Statistics, failures: dict[Series, str], why: str
) -> Iterator[Work]:
    """The work that needs no other ranks; for the rest, the reason goes to the failures."""
    for work in works:
        if not _is_of_ranks(work.asked, statistics):
            yield work
            continue
        if work.is_emitted:
            failures[work.series] = why
            if work.asked.quantity.looks_back:
                yield work._replace(statistics=None)


def _is_of_ranks(asked: Subscription, statistics: Statistics) -> bool:
    """True if ranks read different data for a quantity, so that it has to be joined."""
    return asked.is_at_calls or any(
        statistics.is_in_parts(asked.module, reading) for reading in asked.readings.values()
    )
