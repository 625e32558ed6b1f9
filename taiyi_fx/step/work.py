"""What is to be computed, and of what: the calls that a step asks for, with what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import Mode, Numbers, Reading, State
from taiyi_fx.passes.probes.slots import SlotTable, in_tensors
from taiyi_fx.records.record import Series

Asked = tuple[Subscription, bool]
"""What to look at, and whether it emits a value or only adds to a window."""


class Statistic(NamedTuple):
    """What one reading left.

    Attributes:
        reading: The reading.
        state: Its statistic; or those of many, along the first axis.
        factor: What it has to be multiplied with to be that of the true loss.
    """

    reading: Reading
    state: State | Numbers
    factor: float

    def finished(self) -> Any:
        """What a quantity's function takes."""
        return finished(self.reading, in_tensors(self.state), self.factor)


def finished(reading: Reading, state: State, factor: float) -> Any:
    """What a quantity's function takes of a statistic, or of many along the first axis."""
    reduction = reading.reduction
    return reduction.finish(state if factor == 1.0 else reduction.scale(state, factor))


class Work(NamedTuple):
    """One quantity of one call to compute.

    Attributes:
        asked: What was asked for.
        mode: Of the forward.
        call: Which of the module's calls in it.
        is_emitted: Whether a value is due, or a window only goes on.
        series: Its name in records.
        statistics: What was read, by parameter of the quantity's function; None if nothing was.
        weight: Whose gradient it is of, where it is of a weight's.
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
        """That of a call of which nothing is read yet."""
        module = asked.module + (f"@{call}" if call else "")
        return Work(asked, mode, call, is_emitted, (module, asked.label))


def works_of(every: Iterable[Asked], modes: Iterable[Mode], table: SlotTable) -> list[Work]:
    """All calls seen so far of what is asked, in the model's order."""
    return [
        Work.at(asked, mode, call, is_emitted=is_emitted)
        for asked, is_emitted in every
        for mode in modes
        for call in calls_of(asked, mode, table)
    ]


def calls_of(asked: Subscription, mode: Mode, table: SlotTable) -> range:
    """Which calls of a module have been seen; in training there is always a first to look for."""
    if not asked.is_at_calls:
        return range(mode == "train")
    return range(max(table.calls(mode, asked.module), mode == "train"))
