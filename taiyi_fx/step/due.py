"""The work due at a step, made once for each combination of due schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Due
from taiyi_fx.schedule import NEVER, Schedule, is_any_due, last_due
from taiyi_fx.step.parameters import ParameterReadings, parameter_readings
from taiyi_fx.step.work import Asked


@dataclass(frozen=True, eq=False)
class DueWork:
    """The work of one combination of due schedules.

    Attributes:
        asked: The subscriptions for `track`, in the order of the model's modules.
        parameters: The readings of parameters and buffers.
        readings: The readings that forwards before `track` have to make.
    """

    asked: tuple[Asked, ...]
    parameters: tuple[ParameterReadings, ...]
    readings: Due


class DueTable:
    """The work due at each step of a run; each combination is made when first needed.

    Args:
        subscriptions: All subscriptions.
        modules: The model's modules, by name.

    Attributes:
        raised: Steps at which every adaptive schedule is due.
    """

    def __init__(
        self, subscriptions: Sequence[Subscription], modules: Mapping[str, nn.Module]
    ) -> None:
        self._subscriptions = subscriptions
        self._modules = modules
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
        if due not in self._made:
            state_of = dict(zip(self._last_due, due, strict=True))
            self._made[due] = self._due_work(state_of)
        return self._made[due]

    def _due_work(self, due: Mapping[tuple[Schedule, ...], bool | None]) -> DueWork:
        states = ((asked, due[asked.schedules]) for asked in self._subscriptions)
        every = tuple(
            (asked, bool(is_due))
            for asked, is_due in states
            if is_due or (is_due is not None and asked.is_read_between)
        )
        keys = [(s.module, reading) for s, _ in every for reading in s.readings.values()]
        at_calls = frozenset(key for key in keys if key[1].site.port in CALL_PORTS)
        return DueWork(every, parameter_readings(keys, self._modules), at_calls)
