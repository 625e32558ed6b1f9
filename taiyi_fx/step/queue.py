"""The queue of tracked steps, which become records in order and are passed to writers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from taiyi_fx.records.epochs import Epochs, EpochSummary
from taiyi_fx.records.record import Event, NonFiniteSite, Records, Series
from taiyi_fx.step.collect import TrackedStep
from taiyi_fx.step.non_finite import first_sites
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.warning import warn, warn_of
from taiyi_fx.writers.protocol import Batch, EpochEnd
from taiyi_fx.writers.writer_group import WriterGroup

_KEPT_NUMBERS = 5_000_000
"""The largest number of values held in memory: some 200 MB."""

_SHOWN = 10
"""The largest number of reasons in one warning."""


class StepQueue:
    """Makes records of steps as these become complete.

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
        self.non_finite: list[NonFiniteSite] = []
        self._epochs = epochs
        self._writers = writers
        self._steps: deque[TrackedStep] = deque()
        self._events: list[Event] = []

    def put(self, step: TrackedStep) -> None:
        """Takes a step that may not be complete yet."""
        self._steps.append(step)
        for waiting in self._steps:
            self._report_non_finite(waiting)

    def drop(self, step: int) -> None:
        """Forgets a step that is not recorded yet: something failed in the middle of it."""
        self._steps = deque(waiting for waiting in self._steps if waiting.step != step)

    def take(self, *, all_of_it: bool) -> None:
        """Records the steps that are complete, in their order; or waits for all of them.

        Raises:
            Exception: What a quantity raised, if strict.
        """
        while self._steps:
            step = self._steps[0]
            if not (all_of_it or step.is_there):
                return
            outcomes: list[Outcome] = []
            try:
                outcomes.append(step.prompt.outcome())
                if step.costly is not None:
                    outcomes.append(step.costly.outcome())
            except Exception:  # of a quantity, if strict: the others are still recorded
                self._steps.popleft()
                self._record(step, outcomes)
                raise
            self._steps.popleft()
            self._record(step, outcomes)

    def report(self, step: int, failures: Mapping[Series, str]) -> None:
        """Warns of missing values at a step, each time the reason is a new one."""
        news: list[str] = []
        for (module, label), text in failures.items():
            if self.missing.get((module, label)) != text:
                news.append(f"{label} of {module or 'the model'!r}: {text}")
                if self._writers:
                    self._events.append(Event(step, "warning", module, f"{label}: {text}"))
            self.missing[module, label] = text
        if news:
            shown = "\n".join(f"  - {line}" for line in news[:_SHOWN])
            more = len(news) - _SHOWN
            rest = f"\n  and {more} more (see monitor.missing)" if more > 0 else ""
            warn(f"no value for\n{shown}{rest}")

    def close_epoch(self, epoch: int | None) -> list[EpochSummary]:
        """Closes an epoch, for the writers too; returns the summary of each scalar series."""
        expected = self._epochs.next
        closed = self._epochs.close(epoch)
        if self._writers:
            ended = EpochEnd(expected, self._epochs.next - 1, closed)
            self.write_pending(Batch(expected, ended=ended))
        return closed

    def write_pending(self, batch: Batch | None = None, *, at_once: bool = False) -> None:
        """Gives the writers the waiting events, then a batch, and flushes them when it is time."""
        if self._events:
            events, self._events = self._events, []
            self._writers.write(Batch(self._epochs.next, events=events))
        if batch is not None:
            self._writers.write(batch)
        self._writers.flush(at_once=at_once)
        warn_of(self._writers.pop_errors())

    def clear(self) -> None:
        """Forgets all that was recorded."""
        self.records.clear()
        self.non_finite.clear()
        self._epochs.clear()

    def _report_non_finite(self, step: TrackedStep) -> None:
        """Warns of a step's first NaN or Inf as soon as its counts have arrived."""
        if step.sites is None or not step.prompt.is_there:
            return
        outcome = step.prompt.outcome()
        found = first_sites(step.sites, outcome, may_overflow=step.may_overflow)
        step.sites = None
        faults = [site for site in found if not site.is_overflow]
        if faults and all(site.is_overflow for site in self.non_finite):
            warn("\n".join(map(str, faults)))
        self.non_finite += found
        if self._writers:
            self._events += (site.event for site in found)

    def _record(self, step: TrackedStep, outcomes: list[Outcome]) -> None:
        self._report_non_finite(step)
        last, order = len(step.order), step.order
        every = [pair for outcome in outcomes for pair in outcome.blocks if pair[0]]
        every.sort(key=lambda pair: order.get(pair[0][0], last))
        for of, block in every:
            self.records.append_block(block)
            self._epochs.add_block(block)
            if self.missing:
                for series in of:
                    self.missing.pop(series, None)
        records = sorted(
            (pair for outcome in outcomes for pair in outcome.records),
            key=lambda pair: order.get(pair[0], last),
        )
        for series, record in records:
            self.records.append(record)
            self._epochs.add(record)
            self.missing.pop(series, None)
        if self._writers:
            blocks = [block for _, block in every]
            self._writers.write(Batch(self._epochs.next, blocks, [r for _, r in records]))
        self._bound()
        for outcome in outcomes:
            self.missing.update(outcome.reasons)
            self.report(step.step, outcome.failures)

    def _bound(self) -> None:
        """Keeps the records in memory within bounds."""
        dropped = self.records.dropped
        self.records.keep(_KEPT_NUMBERS)
        if self.records.dropped and not dropped and not self._writers:
            warn(
                f"{_KEPT_NUMBERS:,} numbers are in memory: from here on the oldest are dropped. "
                "instrument(..., run='runs/name') keeps all of them in a file"
            )
