"""The queue of tracked steps, which become records in order and are passed to writers."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taiyi_fx.records.epochs import Epochs, EpochSummary
from taiyi_fx.records.record import (
    OF_FINDINGS,
    Block,
    Event,
    NonFiniteSite,
    Record,
    Records,
    Series,
)
from taiyi_fx.step.collect import TrackedStep
from taiyi_fx.step.non_finite import first_sites
from taiyi_fx.step.transfer import Column, Outcome
from taiyi_fx.warning import warn, warn_of
from taiyi_fx.writers.protocol import Batch, EpochEnd
from taiyi_fx.writers.writer_group import WriterGroup

_KEPT_NUMBERS = 5_000_000
"""The largest number of values held in memory: some 250 MB."""

_SHOWN = 10
"""The largest number of reasons in one warning."""


class StepQueue:
    """Makes records of steps as these become complete.

    An interrupt may come at any instruction, and neither loses nor doubles a record: an operation
    under way is kept until all of it took effect, and is finished before another begins. The last
    item of each list shows if that part of it had taken effect.

    Args:
        epochs: Accumulates the statistics of epochs.
        writers: The writers, which get all records.

    Attributes:
        records: The records so far.
        missing: The reason for each value that was missing when last due.
        non_finite: The first sites of steps that brought a NaN or an Inf.
    """

    def __init__(self, epochs: Epochs, writers: WriterGroup) -> None:
        self.records = Records()
        self.missing: dict[Series, str] = {}
        # The step of each reason: what was computed of an earlier one may come later. It counts
        # while steps go up, and is forgotten where they begin anew.
        self._missing_since: dict[Series, int] = {}
        self._last = -1
        self.non_finite: list[NonFiniteSite] = []
        self._epochs = epochs
        self._writers = writers
        # The waiting steps, and the user's numbers that wait for a step: replaced as one object.
        self._waiting: tuple[list[TrackedStep], list[Column]] = [], []
        self._events: list[Event] = []
        self._begun: _Recording | Batch | None = None

    @property
    def is_written(self) -> bool:
        """True if there are writers."""
        return bool(self._writers)

    @property
    def is_at_rest(self) -> bool:
        """True if there is nothing to record, to write or to flush."""
        return not (self._waiting[0] or self._events or self._writers.are_to_flush)

    @property
    def logged(self) -> Sequence[Column]:
        """The user's own numbers that belong to no step yet."""
        return self._waiting[1]

    def log(self, column: Column) -> None:
        """Adds a number of the user's, for the next step."""
        self._waiting[1].append(column)

    def put(self, step: TrackedStep, logged: int = 0) -> None:
        """Adds a step that may not be complete yet.

        Args:
            step: The step.
            logged: The count of the user's numbers that belong to it, here or on another rank.
        """
        if step.step < self._last:
            self._missing_since.clear()
        self._last = step.step
        steps, columns = self._waiting
        self._waiting = [*steps, step], columns[logged:]
        for waiting in self._waiting[0]:
            if waiting.sites is not None:
                self._report_non_finite(waiting)

    def drop(self, step: int) -> None:
        """Drops a step that is not recorded yet: something failed in the middle of it."""
        self._begun = None
        self._waiting = [waiting for waiting in self._waiting[0] if waiting.step != step], []

    def take(self, *, all_of_it: bool, but_last: int = 0) -> None:
        """Records the steps that are complete, in their order; or waits for all of them.

        Args:
            all_of_it: True to wait.
            but_last: The number of steps at the end that are left.

        Raises:
            Exception: Any that a quantity raised, if strict.
        """
        self._finish()
        while len(self._waiting[0]) > but_last:
            step = self._waiting[0][0]
            if not (all_of_it or step.is_there):
                return
            self._begun = self._recording(step)
            self._finish()

    def report(self, step: int, failures: Mapping[Series, str]) -> None:
        """Warns of missing values at a step whose reason is a new one."""
        news: list[str] = []
        for (module, label), text in failures.items():
            if not _is_told(self.missing.get((module, label)), text):
                news.append(f"{label} of {module or 'the model'!r}: {text}")
                if self._writers:
                    self._events.append(Event(step, "warning", module, f"{label}: {text}"))
            self._miss((module, label), step, text)
        if news:
            shown = "\n".join(f"  - {line}" for line in news[:_SHOWN])
            more = len(news) - _SHOWN
            rest = f"\n  and {more} more (see monitor.missing)" if more > 0 else ""
            warn(f"no value for\n{shown}{rest}")

    def keep_reasons(self, step: int, reasons: Mapping[Series, str]) -> None:
        """Keeps the reasons for values that nobody named, for the writers where they are new."""
        for (module, label), text in reasons.items():
            if self._writers and not _is_told(self.missing.get((module, label)), text):
                self._events.append(Event(step, "missing", module, f"{label}: {text}"))
            self._miss((module, label), step, text)

    def _miss(self, series: Series, step: int, why: str) -> None:
        if not self._is_of_later(series, step):
            self.missing[series], self._missing_since[series] = why, step

    def _is_of_later(self, series: Series, step: int) -> bool:
        """True if what is missing is so since a step that comes after another."""
        return self._missing_since.get(series, step) > step

    def add_events(self, events: Sequence[Event]) -> None:
        """Adds events for the writers."""
        if self._writers:
            _extend(self._events, events)

    def close_epoch(self, epoch: int | None) -> list[EpochSummary]:
        """Closes an epoch, for the writers too; returns the summary of each scalar series."""
        self._finish()
        expected = self._epochs.next
        if self._epochs.has_left_quantiles:
            warn(
                "more than five million numbers belong to this epoch: its summaries have no "
                "quartiles. End epochs more often, or ask for epoch_statistics='streaming'"
            )
        closed = self._epochs.close(epoch)
        if self._writers:
            ended = EpochEnd(expected, self._epochs.next - 1, closed)
            self.write_pending(Batch(expected, ended=ended))
        return closed

    def write_pending(self, batch: Batch | None = None, *, at_once: bool = False) -> None:
        """Gives the writers the waiting events, then a batch, and flushes them when it is time."""
        self._finish()
        if self._events:
            events = [event for event in self._events if event.kind not in OF_FINDINGS]
            others = [event for event in self._events if event.kind in OF_FINDINGS]
            self._begun = Batch(self._epochs.next, events=events, of_findings=others)
            self._finish()
        if batch is not None:
            self._begun = batch
            self._finish()
        self._writers.flush(at_once=at_once)
        warn_of(self._writers.pop_errors())

    def clear(self) -> None:
        """Drops all records."""
        self.records.clear()
        self.non_finite.clear()
        self._epochs.clear()
        self._missing_since.clear()

    def _report_non_finite(self, step: TrackedStep) -> None:
        """Warns of a step's first NaN or Inf as soon as its counts have arrived."""
        if step.sites is None or not step.prompt.is_there:
            return
        if step.found is None:
            outcome = step.prompt.outcome()
            sites = list(first_sites(step.sites, outcome, may_overflow=step.may_overflow))
            step.found = sites, [site.event for site in sites]
        found, events = step.found
        faults = [site for site in found if not site.is_overflow]
        if faults and all(site.is_overflow for site in self.non_finite):
            warn("\n".join(map(str, faults)))
        _extend(self.non_finite, found)
        if self._writers:
            _extend(self._events, events)
        step.sites = None

    def _recording(self, step: TrackedStep) -> _Recording:
        """The outcome of a step as a recording; waits if it is not complete."""
        if step.sites is not None:
            self._report_non_finite(step)
        outcomes: list[Outcome] = []
        error = None
        try:
            outcomes.append(step.prompt.outcome())
            if step.costly is not None:
                outcomes.append(step.costly.outcome())
        except Exception as raised:  # noqa: BLE001 - of a quantity, if strict: raised when recorded
            error = raised
        last, order = len(step.order), step.order
        blocks: list[tuple[int, Block]] = []
        records: list[tuple[int, Record]] = []
        for outcome in outcomes:
            for of, block in outcome.blocks:
                if of:
                    blocks.append((order.get(of[0], last), block))
            for of, record in outcome.records:
                records.append((order.get(of, last), record))
        blocks.sort(key=_place_of)
        records.sort(key=_place_of)
        numbers, others = [*map(_item_of, blocks)], [*map(_item_of, records)]
        batch = Batch(self._epochs.next, numbers, others)
        return _Recording(step, outcomes, batch, error)

    def _finish(self) -> None:
        """Finishes a recording that was begun, perhaps before an interrupt, each part once.

        Raises:
            Exception: Any that a quantity raised, if strict.
        """
        begun = self._begun
        if isinstance(begun, _Recording):
            self._record(begun)
        elif begun is not None:
            self._write(begun)
        self._begun = None
        if isinstance(begun, _Recording) and begun.error is not None:
            raise begun.error

    def _record(self, begun: _Recording) -> None:
        blocks, records = begun.batch.blocks, begun.batch.records
        self.records.extend([*blocks, *records])
        self._epochs.extend(blocks)
        if self._writers:
            self._writers.write(begun.batch)
        steps, columns = self._waiting
        self._waiting = [step for step in steps if step is not begun.step], columns
        now = begun.step.step
        for outcome in begun.outcomes if self.missing else ():
            for series in outcome.series().intersection(self.missing):
                if not self._is_of_later(series, now):
                    del self.missing[series]
        self._bound()
        for outcome in begun.outcomes:
            for series, why in outcome.reasons.items():
                self._miss(series, now, why)
            if outcome.failures:
                self.report(begun.step.step, outcome.failures)

    def _write(self, batch: Batch) -> None:
        self._writers.write(batch)
        written = set(map(id, (*batch.events, *batch.of_findings)))
        self._events = [event for event in self._events if id(event) not in written]

    def _bound(self) -> None:
        """Keeps the records in memory within bounds."""
        dropped = self.records.dropped
        self.records.keep(_KEPT_NUMBERS)
        if self.records.dropped and not dropped and not self._writers:
            warn(
                f"{_KEPT_NUMBERS:,} numbers are in memory: from here on the oldest are dropped. "
                "instrument(..., run='runs/name') keeps all of them in a file"
            )


_NUMBER = re.compile(r"\d+")
_place_of, _item_of = operator.itemgetter(0), operator.itemgetter(1)


class _Recording(NamedTuple):
    """A step that is being recorded.

    Attributes:
        step: The step.
        outcomes: Its outcomes.
        batch: The values.
        error: The error of a quantity, if strict.
    """

    step: TrackedStep
    outcomes: list[Outcome]
    batch: Batch
    error: Exception | None


def _is_told(before: str | None, now: str) -> bool:
    """True if a reason is the one before it, but for its numbers: those of sizes may differ."""
    if before is None or before == now:
        return before == now
    return _NUMBER.sub("", before) == _NUMBER.sub("", now)


def _extend(items: list[Any], new: Sequence[Any]) -> None:
    """Adds items at the end, unless they were just added, before an interrupt."""
    if new and not (items and items[-1] is new[-1]):
        items.extend(new)
