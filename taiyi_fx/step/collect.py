"""One step's collection: from what its readings left to values on their way to the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import nn

from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.slots import SlotTable
from taiyi_fx.record import Series
from taiyi_fx.step.background import Aside, Job
from taiyi_fx.step.due import Asked, DueWork
from taiyi_fx.step.evaluate import Evaluator, Work
from taiyi_fx.step.non_finite import Sites, counting_sites
from taiyi_fx.step.ranks import Join
from taiyi_fx.step.statistics import Readings, ReadingUnavailable, Scale
from taiyi_fx.step.transfer import Column, Pending, Transfer
from taiyi_fx.step.vectorized import Place, Stack, calls_of, computed, stack

_NOT_ANNOUNCED = (
    "the forward had been prepared for another step than the one tracked; call track at every "
    "optimizer step, or run the forward inside `with monitor.at(step):`"
)


@dataclass
class Collected:
    """A tracked step whose records are not all there yet.

    Attributes:
        step: Its number.
        prompt: What was computed at once, on its way to the host.
        costly: What is being computed aside.
        order: The place of each series among the step's records.
        sites: Where NaN and Inf were counted, until that is told.
        may_overflow: Whether a scaler leaves the step out if gradients are not finite.
        failures: What went wrong so far, by series.
    """

    step: int
    prompt: Transfer
    costly: Job | None = None
    order: Mapping[Series, int] = field(default_factory=dict)
    sites: Sites = field(default_factory=dict)
    may_overflow: bool = False
    failures: dict[Series, str] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether all of it is."""
        return self.prompt.is_there and (self.costly is None or self.costly.is_done)


class _Planned(NamedTuple):
    """Where an agenda's work is to be done, of the calls seen so far.

    Attributes:
        version: That of the table then.
        stacks: What is computed in groups.
        others: The places of the rest, and whether each emits a value.
    """

    version: int
    stacks: list[Stack]
    others: list[tuple[Place, bool]]


class Collector:
    """Computes what is due of what the readings left.

    Args:
        modules: The model's, by name.
        table: Where the readings of calls are.
        modes: The kinds of forwards that are read.
        strict: Raise what goes wrong.

    Attributes:
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
        self._aside = Aside(self._costly.run)
        self.join: Join | None = None
        self._planned: dict[DueWork, _Planned] = {}

    def clear(self) -> None:
        """Forgets what is kept for quantities that span steps."""
        self._prompt.clear()
        self._costly.clear()

    def collect(
        self,
        agenda: DueWork,
        step: int,
        scale: Scale,
        logged: Sequence[Pending],
        *,
        is_announced: bool,
    ) -> Collected:
        """Computes a step's values, the costly ones aside, and sends them to the host.

        Where it is called, autograd takes no notes.

        Raises:
            Exception: Whatever a quantity raised, if strict.
        """
        failures: dict[Series, str] = {}
        self._table.board.held.measure()
        members = None if self.join is None else self.join.ranks.members
        readings = Readings(self._modules, self._table, scale, members)
        readings.measure_modules(agenda.of_modules)
        if self.join is None:
            columns, alone = self._together(agenda, step, readings)
            places = self._one_by_one(agenda, alone)
            works = list(self._works(places, step, readings, failures, is_announced))
        else:
            columns, works = [], []
            places = self._places_of(agenda.work)
            try:
                works.extend(self._works(places, step, readings, failures, is_announced))
            finally:  # also if strict: the other ranks wait for this one
                if agenda.work:
                    works = self.join.joined(works, agenda.work, step, readings, failures)
        costly = [w for w in works if w.subscription.is_costly]
        job = self._put(costly, failures) if costly else None
        at_once = [w for w in works if not w.subscription.is_costly]
        arriving = self._prompt.start(at_once, columns, logged)
        failures.update(arriving.pop_errors())
        order = {(w.module, w.subscription.label): i for i, w in enumerate(works)}
        sites = counting_sites(agenda.counting, self._modes, self._table)
        return Collected(step, arriving, job, order, sites, scale.may_overflow, failures)

    def _together(
        self, agenda: DueWork, step: int, readings: Readings
    ) -> tuple[list[Column], list[Place]]:
        """What can be computed in groups, and what of those has to be looked at alone."""
        columns: list[Column] = []
        alone: list[Place] = []
        for group in self._plan(agenda).stacks:
            try:
                found, different = computed(group, step, readings)
            except Exception:  # noqa: BLE001 - whose it is shows when each is computed alone
                found, different = [], list(group.places)
            columns += found
            alone += different
        return columns, alone

    def _plan(self, agenda: DueWork) -> _Planned:
        """What to compute of an agenda; made anew when more calls have been seen."""
        planned = self._planned.get(agenda)
        if planned is None or planned.version != self._table.version:
            every = (
                stack(group, mode, self._table, agenda.of_modules)
                for group in agenda.alike
                for mode in self._modes
            )
            stacks = [made for made in every if made.places]
            others = self._places_of(agenda.others)
            planned = _Planned(self._table.version, stacks, others)
            self._planned[agenda] = planned
        return planned

    def _one_by_one(self, agenda: DueWork, alone: list[Place]) -> Iterable[tuple[Place, bool]]:
        """What is not computed in groups, in the model's order, and whether it emits a value."""
        others = self._plan(agenda).others
        if not alone:
            return others
        every = [*others, *((place, True) for place in alone)]
        order = {subscription: i for i, (subscription, _) in enumerate(agenda.work)}
        return sorted(every, key=lambda pair: order[pair[0].asked])

    def _places_of(self, work: Sequence[Asked]) -> list[tuple[Place, bool]]:
        return [
            (Place(subscription, mode, call), is_emitted)
            for subscription, is_emitted in work
            for mode in self._modes
            for call in calls_of(subscription, mode, self._table)
        ]

    def _works(
        self,
        places: Iterable[tuple[Place, bool]],
        step: int,
        readings: Readings,
        failures: dict[Series, str],
        is_announced: bool,
    ) -> Iterator[Work]:
        for place, is_emitted in places:
            try:
                yield from self._read(place, is_emitted, step, readings)
            except ReadingUnavailable as why:
                if is_emitted and (place.call == 0 or why.seen) and place.mode == "train":
                    failures[place.series] = str(why) if is_announced else _NOT_ANNOUNCED
            except Exception as error:  # Monitoring never ends a run: reported by name.
                if self._strict:
                    raise
                failures[place.series] = f"{type(error).__name__}: {error}"

    def _read(
        self, place: Place, is_emitted: bool, step: int, readings: Readings
    ) -> Iterator[Work]:
        asked, mode, call = place
        try:
            inputs = readings.of(asked, mode, call)
        except ReadingUnavailable:
            if is_emitted and asked.quantity.looks_back:
                yield Work(asked, step, mode, call, None, is_emitted)
            raise
        yield Work(asked, step, mode, call, inputs, is_emitted)

    def _put(self, works: list[Work], failures: dict[Series, str]) -> Job | None:
        try:
            return self._aside.put(works)
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                raise
            text = f"{type(error).__name__}: {error}"
            failures.update({(w.module, w.subscription.label): text for w in works})
            return None
