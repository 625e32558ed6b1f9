"""Units of work: one quantity of one call each, with the statistics to compute it from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import Mode, Numbers, Reading, State
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.records.record import Series

_QUICK = 2**21
"""So many multiplications make the decompositions of a batch of matrices, in about a millisecond.
Handed over, small ones take more of both cores than that, whose caches they share."""

Asked = tuple[Subscription, bool]
"""A subscription, and True if it emits a value now or False if it only adds to a window."""


class Statistic(NamedTuple):
    """The statistic of one reading.

    Attributes:
        reading: The reading.
        state: The state of its reduction; or those of many, along the first axis.
        factor: The factor that takes the loss scale out.
    """

    reading: Reading
    state: State | Numbers
    factor: float

    def finished(self) -> Any:
        """The finished value, which the quantity's function takes."""
        return finished(self.reading, in_tensors(self.state), self.factor)


def finished(reading: Reading, state: State, factor: float) -> Any:
    """The finished value of a statistic, or of many along the first axis."""
    reduction = reading.reduction
    return reduction.finish(state if factor == 1.0 else reduction.scale(state, factor))


class Work(NamedTuple):
    """One quantity of one call to compute.

    Attributes:
        asked: The subscription.
        mode: Of the forward.
        call: The number of the module's call in it, from 0.
        is_emitted: True if a value is due; False if the step only adds to a window.
        series: Its name in records.
        statistics: One for each parameter of the quantity's function; None if nothing was read.
        weight: The identity of the weight, where the quantity is of a weight's gradient.
    """

    asked: Subscription
    mode: Mode
    call: int
    is_emitted: bool
    series: Series
    statistics: Mapping[str, Statistic] | None = None
    weight: int | None = None

    @staticmethod
    def at(asked: Subscription, mode: Mode, call: int, *, is_emitted: bool) -> Work:
        """The work of a call of which nothing is read yet."""
        module = asked.module + (f"@{call}" if call else "")
        return Work(asked, mode, call, is_emitted, (module, asked.label))


class Batch(NamedTuple):
    """Calls of one quantity to compute together.

    Attributes:
        works: The calls, without their statistics.
        series: Their names in records.
        statistics: Those of all calls, along the first axis: one for each parameter of the
            quantity's function.
    """

    works: Sequence[Work]
    series: tuple[Series, ...]
    statistics: Mapping[str, Statistic]

    @property
    def takes_long(self) -> bool:
        """True for what is computed beside the training: another thread costs it less than that."""
        if not self.works[0].asked.is_costly:
            return False
        parts = [part for s in self.statistics.values() for part in in_tensors(s.state)]
        matrices = [part for part in parts if part.ndim > 2]
        size = sum(part.numel() * min(part.shape[-2:]) for part in matrices)
        return size > _QUICK or not all(part.is_cpu for part in parts)

    def apart(self) -> list[Work]:
        """Each call alone, with its own statistics."""
        names = list(self.statistics)
        states = [zip(*statistic.state, strict=True) for statistic in self.statistics.values()]
        return [
            work._replace(
                statistics={
                    name: self.statistics[name]._replace(state=state)
                    for name, state in zip(names, each, strict=True)
                }
            )
            for work, *each in zip(self.works, *states, strict=True)
        ]


def works_of(every: Iterable[Asked], modes: Iterable[Mode], table: SlotTable) -> list[Work]:
    """The work of all calls seen so far, in the order of the model's modules."""
    return [
        Work.at(asked, mode, call, is_emitted=is_emitted)
        for asked, is_emitted in every
        for mode in modes
        for call in calls_of(asked, mode, table)
    ]


def calls_of(asked: Subscription, mode: Mode, table: SlotTable) -> range:
    """The calls of a module seen so far; in training always at least the first."""
    if not asked.is_at_calls:
        return range(mode == "train")
    return range(max(table.calls(mode, asked.module), mode == "train"))
