"""Collection of one step: from the statistics of its readings to values under way to the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.records.record import Block, Event, NonFiniteSite, Series
from taiyi_fx.step.background import BackgroundWorker, Job, series_of
from taiyi_fx.step.due import DueWork
from taiyi_fx.step.evaluate import Evaluator
from taiyi_fx.step.host import SMALL, size_elsewhere
from taiyi_fx.step.non_finite import CountingSites, Sites
from taiyi_fx.step.parameters import ReadingUnavailable
from taiyi_fx.step.plan import Planner
from taiyi_fx.step.presence import Presence
from taiyi_fx.step.ranks import Join
from taiyi_fx.step.statistics import Scale, Statistics
from taiyi_fx.step.transfer import Column, Transfer
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.step.work import Batch, Work, works_of


@dataclass
class TrackedStep:
    """A tracked step whose records are not complete yet.

    Attributes:
        step: Its number.
        prompt: The values computed at once, on their way to the host.
        costly: The job in the background; None if there is none.
        order: The place of each series among the step's records.
        sites: The sites that counted NaN and Inf, until they are reported.
        found: The first site that counted any, with its events, once that is known.
        may_overflow: True if a scaler skips the step where gradients are not finite.
        failures: The failures so far, by series.
        reasons: The reasons for values that nobody named and that are not available, by series.
    """

    step: int
    prompt: Transfer
    costly: Job | None = None
    order: Mapping[Series, int] = field(default_factory=dict)
    sites: Sites | None = None
    found: tuple[list[NonFiniteSite], list[Event]] | None = None
    may_overflow: bool = False
    failures: dict[Series, str] = field(default_factory=dict)
    reasons: dict[Series, str] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """True if all values have arrived."""
        return self.prompt.is_there and (self.costly is None or self.costly.is_done)


class _Places(NamedTuple):
    """All calls that are due, of those seen so far.

    Attributes:
        version: The version of the table then.
        works: The calls.
        order: The place of each series among them.
        sites: The sites that count NaN and Inf; None if there are none.
    """

    version: int
    works: list[Work]
    order: dict[Series, int]
    sites: CountingSites | None


class Collector:
    """Computes the values that are due from the statistics of the readings.

    Args:
        modules: The model's modules, by name.
        table: The statistics of readings at calls.
        modes: The kinds of forwards that are read.
        strict: Raise what goes wrong.

    Attributes:
        whole: The model as a whole: its optimizer, and the losses logged.
        join: Other ranks, whose readings are joined with those of this one.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        table: SlotTable,
        modes: tuple[Mode, ...],
        *,
        strict: bool,
    ) -> None:
        self._modules = modules
        self._table = table
        self._modes = modes
        self._strict = strict
        self._prompt, self._costly = Evaluator(strict=strict), Evaluator(strict=strict)
        self._background = BackgroundWorker(self._costly.run)
        self._planner = Planner(table)
        self._presence = Presence(modules)
        self._places: dict[DueWork, _Places] = {}
        self._on_host: dict[tuple[Subscription, Mode, int], bool] = {}
        self.whole = WholeModel(modules[""])
        self.join: Join | None = None

    def clear(self) -> None:
        """Drops the readings kept for quantities that span steps."""
        self._prompt.clear()
        self._background.in_order(self._costly.clear)
        self.whole.clear()

    def collect(
        self,
        due: DueWork,
        step: int,
        scale: Scale,
        logged: Sequence[Column],
        *,
        unread: str | None = None,
    ) -> TrackedStep:
        """Computes a step's values, costly ones in the background, and sends them to the host.

        Call under `torch.no_grad()`.

        Args:
            due: The due work.
            step: The step.
            scale: The factor of its gradients.
            logged: Numbers of the user's own.
            unread: The reason why this step's forwards were not read, for the values that are
                missing; None if they were read.

        Raises:
            Exception: Any that a quantity raised, if strict.
        """
        failures: dict[Series, str] = {}
        quiet: set[Series] = set()
        members = None if self.join is None else self.join.ranks.members
        gone = self._presence.gone() if due.asked else ()
        statistics = Statistics(
            self._modules, self._table, scale, members, gone, whole=self.whole, step=step
        )
        blocks: list[Block] = []
        batches: list[Batch] = []
        try:
            self._table.measure()
            for readings in due.parameters:
                statistics.parameters.measure(readings)
            places = self._places_of(due)
            order, works = places.order, places.works
            if self.join is None:
                blocks, batches, works = self._planner.planned(due, step, works, statistics)
            else:
                self._table.board.held.settle()
            if works:
                works = list(self._read(works, statistics, failures, quiet, unread))
        except Exception as error:
            if self.join is not None and due.asked:  # the other ranks wait for this one
                self.join.fail(step, due.asked, statistics, error)
            raise
        if self.join is not None:
            if due.asked:
                works = self.join.joined(step, works, due.asked, statistics, failures)
            order = {work.series: i for i, work in enumerate(works)}
        costly: list[Work] = []
        prompt: list[Work] = []
        for work in works:
            (costly if self._is_for_background(work) else prompt).append(work)
        costly_batches: list[Batch] = []
        prompt_batches: list[Batch] = []
        for batch in batches:
            (costly_batches if batch.takes_long else prompt_batches).append(batch)
        is_any = costly or costly_batches
        job = self._submit(step, costly, costly_batches, failures) if is_any else None
        transfer = self._prompt.start(step, prompt, logged, blocks, prompt_batches)
        failures.update(transfer.pop_errors())
        sites = None if places.sites is None else places.sites.now()
        overflows = scale.may_overflow
        reasons = {s: failures.pop(s) for s in quiet.intersection(failures)} if quiet else {}
        return TrackedStep(step, transfer, job, order, sites, None, overflows, failures, reasons)

    def _places_of(self, due: DueWork) -> _Places:
        """The work of all calls seen so far that is due."""
        known = self._places.get(due)
        if known is None or known.version != self._table.version:
            works = works_of(due.asked, self._modes, self._table)
            order = {work.series: i for i, work in enumerate(works)}
            sites = CountingSites(works, self._table) or None
            known = self._places[due] = _Places(self._table.version, works, order, sites)
        return known

    def _read(
        self,
        places: Iterable[Work],
        statistics: Statistics,
        failures: dict[Series, str],
        quiet: set[Series],
        unread: str | None,
    ) -> Iterator[Work]:
        """Work with its statistics; reasons for missing ones go to the failures.

        Those of optional work that is not available, and usual ones, are quiet, unless no forward
        was read.
        """
        for work in places:
            try:
                yield statistics.read(work)
            except ReadingUnavailable as why:
                if work.is_emitted and work.asked.quantity.looks_back:
                    yield work
                if work.is_emitted and (work.call == 0 or why.seen) and work.mode == "train":
                    failures[work.series] = unread or str(why)
                    if (work.asked.is_optional or why.is_usual) and not unread:
                        quiet.add(work.series)
            except Exception as error:  # Monitoring never ends a run: reported by name.
                # A reduction refuses by a ValueError what it cannot read.
                is_refused = work.asked.is_optional and isinstance(error, ValueError)
                if self._strict and not is_refused:
                    raise
                failures[work.series] = f"{type(error).__name__}: {error}"
                if is_refused:
                    quiet.add(work.series)

    def _is_for_background(self, work: Work) -> bool:
        """True for what takes long, and for what many small operations on a device would make.

        To begin an operation on a device takes longer than the host takes for all of it, so there
        the values are made, once their statistics have arrived; of all layers together those that
        are batched. What was said of a call once stays, since what is kept of earlier steps is
        kept with the one or the other.
        """
        asked = work.asked
        is_told_at_once = asked.non_finite_reading is not None
        if asked.is_costly or asked.quantity.over_all or asked.quantity.batched or is_told_at_once:
            return asked.is_costly
        states = [s.state for s in work.statistics.values()] if work.statistics else []
        size = sum(map(size_elsewhere, states))
        if not size and not self._on_host:
            return False
        key = asked, work.mode, work.call
        return (
            self._on_host.setdefault(key, size <= SMALL) if size else self._on_host.get(key, False)
        )

    def _submit(
        self, step: int, works: list[Work], batches: list[Batch], failures: dict[Series, str]
    ) -> Job | None:
        try:
            return self._background.submit(step, works, batches)
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                raise
            text = f"{type(error).__name__}: {error}"
            failures.update(dict.fromkeys(series_of(works, batches), text))
            return None
