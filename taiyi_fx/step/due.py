"""The work due at a step, made once for each combination of due schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Due, Reading
from taiyi_fx.schedule import (
    AFTER_ALL,
    NEVER,
    Schedule,
    is_always_due,
    is_any_due,
    last_due,
    next_due,
)
from taiyi_fx.step.parameters import ParameterReadings, parameter_readings
from taiyi_fx.step.work import Asked


class Recorded(Protocol):
    """Readings that are made beside those of quantities, and taken by whoever asks for them.

    Attributes:
        readings: The readings.
    """

    readings: Due

    def is_due(self, step: int) -> bool:
        """True if they are made at a step."""
        ...

    def take(self, step: int, factor: Callable[[Reading], float]) -> None:
        """Takes their statistics, as a step ends; a factor takes the loss scale out of one."""
        ...


@dataclass(frozen=True, eq=False)
class DueWork:
    """The work of one combination of due schedules.

    Attributes:
        asked: The subscriptions for `track`, in the order of the model's modules.
        parameters: The readings of parameters and buffers.
        readings: The readings that forwards before `track` have to make.
        is_recorded: True if those beside the quantities' are among them.
    """

    asked: tuple[Asked, ...]
    parameters: tuple[ParameterReadings, ...]
    readings: Due
    is_recorded: bool = False

    @property
    def is_nothing(self) -> bool:
        """True if there is none."""
        return not (self.asked or self.readings)


class DueTable:
    """The work due at each step of a run; each combination is made when first needed.

    Args:
        subscriptions: All subscriptions.
        modules: The model's modules, by name.
        recorded: Readings beside those of quantities; None if there are none.

    Attributes:
        raised: Steps at which every adaptive schedule is due.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        modules: Mapping[str, nn.Module],
        recorded: Recorded | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._modules = modules
        self._recorded = recorded
        # Many quantities share few schedules: each is evaluated once a step.
        every = dict.fromkeys(s.schedules for s in subscriptions)
        self._last_due = {schedules: last_due(schedules) for schedules in every}
        self._made: dict[tuple[bool | None, ...], DueWork] = {}
        self._latest: tuple[int, DueWork] | None = None
        self.raised = NEVER

    def at(self, step: int) -> DueWork:
        """The work due at a step."""
        if self._latest is None or self._latest[0] != step:
            self._latest = step, self._found(step)
        return self._latest[1]

    def next_change(self, step: int) -> int:
        """The first step after one at which there may be other work."""
        if self._recorded is not None:
            return step + 1  # a recorder follows each step
        found = AFTER_ALL
        for schedules, last in self._last_due.items():
            if is_any_due(schedules, step, self.raised):
                found = found if is_always_due(schedules, step) else step + 1
            elif last is None or step <= last:
                found = min(found, next_due(schedules, step + 1, self.raised))
        return found

    def raise_after(self, step: int, steps: int) -> None:
        """Makes adaptive schedules due at each of the steps that follow a step, so many."""
        self._latest = None
        first = step + 1
        if first in self.raised or first == self.raised.stop:  # goes on: steps before stay due
            self.raised = range(self.raised.start, max(self.raised.stop, first + steps))
        else:
            self.raised = range(first, first + steps)

    def _found(self, step: int) -> DueWork:
        # None where nothing will be due again.
        due = tuple(
            None if last is not None and step > last else is_any_due(schedules, step, self.raised)
            for schedules, last in self._last_due.items()
        )
        is_recorded = self._recorded is not None and self._recorded.is_due(step)
        key = *due, is_recorded
        if key not in self._made:
            state_of = dict(zip(self._last_due, due, strict=True))
            self._made[key] = self._due_work(state_of, is_recorded)
        return self._made[key]

    def _due_work(
        self, due: Mapping[tuple[Schedule, ...], bool | None], is_recorded: bool
    ) -> DueWork:
        states = ((asked, due[asked.schedules]) for asked in self._subscriptions)
        every = tuple(
            (asked, bool(is_due))
            for asked, is_due in states
            if is_due or (is_due is not None and asked.is_read_between)
        )
        keys = [(s.module, reading) for s, _ in every for reading in s.readings.values()]
        at_calls = frozenset(key for key in keys if key[1].site.port in CALL_PORTS)
        if self._recorded is not None and is_recorded:
            at_calls |= self._recorded.readings
        parameters = parameter_readings(keys, self._modules)
        return DueWork(every, parameters, at_calls, is_recorded)
