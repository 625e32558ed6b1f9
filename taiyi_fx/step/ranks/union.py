"""Work made of the statistics of all ranks, on the rank that records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Reading, State
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.records.record import Series
from taiyi_fx.step.parameters import ReadingUnavailable
from taiyi_fx.step.ranks.bucket import Key, Rows
from taiyi_fx.step.ranks.gate import named
from taiyi_fx.step.ranks.group import Ranks
from taiyi_fx.step.ranks.merge import merged
from taiyi_fx.step.statistics import Statistics
from taiyi_fx.step.work import Asked, Statistic, Work

Numbers = Mapping[tuple[str, Reading], int]
"""The number of each module's readings, the same on all ranks."""


class Union:
    """The readings of all ranks together.

    Args:
        rows: The statistics that the ranks sent.
        numbers: The number of each module's readings.
        ranks: The joined ranks.
        statistics: The statistics of this rank itself.
    """

    def __init__(self, rows: Rows, numbers: Numbers, ranks: Ranks, statistics: Statistics) -> None:
        self._rows = rows
        self._numbers = numbers
        self._ranks = ranks
        self._statistics = statistics
        self._merged = merged(rows, {i: reading for (_, reading), i in numbers.items()})
        self._on_host: dict[int, tuple[object, State]] = {}
        self._calls: dict[int, set[tuple[Mode, int]]] = {}
        for mode, number, call in rows.present.keys() | rows.failed.keys():
            self._calls.setdefault(number, set()).add((mode, call))

    def works(self, asked: Sequence[Asked], failures: dict[Series, str]) -> Iterator[Work]:
        """The work of all ranks together.

        Args:
            asked: The subscriptions that are due.
            failures: Reasons for values that this rank lacks; afterwards, for those that all lack.
        """
        for subscription, is_emitted in asked:
            for mode, call in self._calls_of(subscription):
                work = Work.at(subscription, mode, call, is_emitted=is_emitted)
                try:
                    work = self._read(work)
                    failures.pop(work.series, None)
                    yield work
                except ReadingUnavailable as why:
                    if is_emitted and subscription.quantity.looks_back:
                        yield work
                    if is_emitted and mode == "train":
                        failures.setdefault(work.series, str(why))
                except Exception as error:  # noqa: BLE001 - monitoring never ends a run
                    failures[work.series] = f"{type(error).__name__}: {error}"

    def _calls_of(self, asked: Subscription) -> list[tuple[Mode, int]]:
        found: set[tuple[Mode, int]] = {("train", 0)}
        if asked.is_at_calls:
            for reading in asked.readings.values():
                found |= self._calls.get(self._numbers[asked.module, reading], set())
        return sorted(found, key=lambda of: (of[0] != "train", of[1]))

    def _read(self, work: Work) -> Work:
        asked, weight = work.asked, None
        if asked.is_of_weight_gradients:
            weight = self._statistics.trained_weight(asked.module)
        found = {name: self._found(work, reading) for name, reading in asked.readings.items()}
        return work._replace(statistics=found, weight=weight)

    def _found(self, work: Work, reading: Reading) -> Statistic:
        asked, port = work.asked, reading.site.port
        if port not in CALL_PORTS and not self._statistics.is_in_parts(asked.module, reading):
            own = self._statistics.of_parameters(asked.module, reading)
            # What ranks have together is on the host.
            return own._replace(state=self._moved(own)) if asked.is_at_calls else own
        key = work.mode, self._numbers[asked.module, reading], work.call
        factor = self._statistics.scale.factor(reading)
        if port in GRADIENT_PORTS:
            # The loss is the mean of the ranks' losses, as parameters' gradients are their mean.
            factor /= len(self._ranks.bringing)
        return Statistic(reading, self._state(key, asked), factor)

    def _state(self, key: Key, asked: Subscription) -> State:
        if key in self._rows.failed:
            places = self._rows.failed[key].nonzero().flatten().tolist()
            ranks = [self._ranks.members[place] for place in places]
            raise ReadingUnavailable(
                f"it could not be read on {named(ranks)}, which warned of the reason"
            )
        if key not in self._merged:
            raise ReadingUnavailable(asked.absence)
        state = self._merged[key]
        if isinstance(state, Exception):
            raise state
        return state

    def _moved(self, own: Statistic) -> State:
        state = own.state
        if id(state) not in self._on_host:
            on_host = tuple(part.cpu() for part in in_tensors(state))
            self._on_host[id(state)] = state, on_host
        return self._on_host[id(state)][1]
