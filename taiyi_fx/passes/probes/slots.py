"""Slots: the statistic of each reading at each call, while a step lasts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import Numbers, Reading, State
from taiyi_fx.passes.probes.retained import Retained

_KEYS = itertools.count()

_TYPES = {int: torch.int64, float: torch.float64}


class Slot:
    """The statistic of one reading at one call, while a step lasts.

    Args:
        module: The module's name.
        reading: The reading.
        touched: The slots that have a result of this step, by their keys; it adds itself.
        late: The slots that wait for a device; it adds itself.
        retained: Gradients of which more may come.

    Attributes:
        found: The state, or None.
        shape: The shape first seen.
        failure: The error of a fold that failed in this step, or None.
        handles: Hooks on tensors that outlive the step.
        first: The mark at the begin of a call that has not ended yet, or None.
        begun: The input of a call that has not ended yet, if its gradient is read, or None.
        note: The reason why it may stay empty, as far as the forward pass shows.
        order: The order of last folds among slots: larger is later.
        is_joined: True if it is merged with those of other ranks.
        ranks: The ranks that hold parts of the folded tensor, or None where each has its own.
    """

    def __init__(
        self,
        module: str,
        reading: Reading,
        touched: dict[str, Slot],
        *,
        is_joined: bool = False,
        late: list[Slot] | None = None,
        retained: Retained | None = None,
    ) -> None:
        self.module = module
        self.reading = reading
        self.key = f"slot_{next(_KEYS)}"
        self._touched = touched
        self._late = [] if late is None else late
        self.retained = Retained() if retained is None else retained
        self._waiting: list[Callable[[], Numbers]] = []
        self.found: State | Numbers | None = None
        self.shape: torch.Size | None = None
        self.failure: Exception | None = None
        self.first: int | None = None
        self.begun: Any = None
        self.note: str | None = None
        self.order = 0
        self.is_joined = is_joined
        self.ranks: tuple[int, ...] | None = None
        self.handles: list[RemovableHandle] = []

    @property
    def state(self) -> State | None:
        """The folded state, as tensors."""
        return None if self.found is None else in_tensors(self.found)

    def fold(self, measured: State | Numbers, shape: torch.Size | None = None) -> None:
        """Folds in the statistic of one more tensor, unless an earlier fold failed."""
        if self.found is not None:
            self.found = self.reading.reduction.merge(in_tensors(self.found), in_tensors(measured))
        elif self.failure is None:
            self.found = measured
            self._touched[self.key] = self
            if self.shape is None:
                self.shape = shape

    def fold_later(self, measured: Callable[[], Numbers]) -> None:
        """Folds in the statistic of one more call, once a device has computed it."""
        self._waiting.append(measured)
        self._late.append(self)
        self._touched[self.key] = self

    def settle(self) -> None:
        """Folds in what waits for a device."""
        waiting, self._waiting = self._waiting, []
        for measured in waiting:
            try:
                self.fold(measured())
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                self.fail(error)

    def restore(self, found: State | Numbers | None) -> None:
        """Sets the state back to one before a forward that does not count."""
        self.found, self.failure, self.begun = found, None, None
        self._waiting = []

    def fail(self, error: Exception) -> None:
        """Records that a fold failed: the step's statistic would be incomplete."""
        self.failure, self.found = without_frames(error), None
        self._touched[self.key] = self

    def note_reason(self, note: str) -> None:
        """Records why the slot may stay empty."""
        self.note = note
        self._touched[self.key] = self

    def clear(self) -> None:
        """Forgets the step."""
        self.found = self.failure = self.first = self.begun = self.note = None
        self._waiting = []
        if self.handles:
            for handle in self.handles:
                handle.remove()
            self.handles.clear()


def in_tensors(found: State | Numbers) -> State:
    """A state as tensors."""
    if not any(type(x) in _TYPES for x in found):
        return cast(State, found)
    return tuple(
        x if isinstance(x, Tensor) else torch.tensor(x, dtype=_TYPES[type(x)]) for x in found
    )


def stacked(each: Sequence[State | Numbers]) -> State:
    """Many states as one, whose parts have one more axis, the first."""
    columns = list(zip(*each, strict=True))
    if any(Tensor in map(type, column) for column in columns):
        columns = zip(*map(in_tensors, each), strict=True)
        return tuple(map(torch.stack, columns))
    return tuple(torch.tensor(column, dtype=_TYPES[type(column[0])]) for column in columns)


def where(condition: Tensor, a: State, b: State) -> State:
    """The parts of one state or the other, as the device decides."""
    return tuple(torch.where(condition, x, y) for x, y in zip(a, b, strict=True))


def without_frames(error: Exception) -> Exception:
    """The error without its traceback, which would keep the tensors of its frames alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
