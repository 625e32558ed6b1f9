"""Tracked steps that are recorded a moment later, several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from taiyi_fx.step.statistics import Scale

FIRST, MOST = 64, 16
SECONDS = 0.05


class Postponed:
    """Tracked steps whose records are not made yet.

    Behind a step of training, a function of Python that runs once takes ten times as long as one
    that runs again: what it needs has left the processor's cache. Where steps are that short, some
    of them are recorded, and looked at, one right after the other. Who asks for records gets all of
    them at once; they are looked at when their turn comes.

    Nothing waits among the first 64 steps that are recorded; later at most 16 do, and none where
    50 ms have passed.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps: list[tuple[int, Scale]] = []
        self._recorded, self._since = 0, clock()

    def add(self, step: int, scale: Scale) -> None:
        """Adds a step that was tracked."""
        self._steps.append((step, scale))

    @property
    def are_waiting(self) -> bool:
        """True if there are steps, and none is to be recorded now."""
        return bool(self._steps) and not self.are_due

    @property
    def are_due(self) -> bool:
        """True if the steps are to be recorded now."""
        waiting = len(self._steps)
        if self._recorded < FIRST or waiting >= MOST:
            return True
        return self._clock() - self._since >= SECONDS

    def taken(self) -> Iterator[tuple[int, Scale, int]]:
        """Takes out each step, the oldest first, with the number of those behind it."""
        while self._steps:
            step, scale = self._steps.pop(0)
            self._recorded += 1
            yield step, scale, len(self._steps)
        self._since = self._clock()
