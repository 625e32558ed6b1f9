"""When to look: often in the beginning, then rarely, and for a small share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST, MOST, SURE = 8, 32, 4
_FREE = 64
_SHARE = 200


class Pace:
    """Counts steps, and decides after which of those with numbers rules are applied.

    They are after 8, 16, 32 and 64 steps, of which 8 have numbers; then each 32, but not before 200
    times as long has passed as the last look took. Where a finding was new and waits to be seen
    again it is when 4 more steps have numbers, or 32 have passed; and where something is odd at
    once: the first time, and again when 32 steps have passed.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._took = 0.0
        self.clear()

    def clear(self) -> None:
        """Begins anew, as for another training."""
        self._steps = self._looked = 0
        self._numbers = self._seen = 0
        self._hurried: int | None = None
        self._ended = self._clock()
        self._is_odd = self._is_waiting = False

    def count(self, steps: int = 1) -> None:
        """Counts a step with numbers.

        Args:
            steps: The steps since the last one that had some.
        """
        self._steps += steps
        self._numbers += 1

    def hurry(self) -> None:
        """Tells that something is odd."""
        self._is_odd = True

    @property
    def is_due(self) -> bool:
        """True if it is time to look."""
        if self._is_odd and (self._hurried is None or self._steps - self._hurried >= MOST):
            return True
        if self._is_waiting and self._numbers - self._seen >= SURE:
            return True
        gap = MOST if self._is_waiting else min(max(FIRST, self._looked), MOST)
        if self._numbers < FIRST or self._steps - self._looked < gap:
            return False
        return self._is_affordable

    @property
    def has_unseen(self) -> bool:
        """True if there are enough numbers to look at, of which some came after the last look."""
        return self._numbers >= FIRST and self._numbers > self._seen

    @property
    def _is_affordable(self) -> bool:
        return self._steps <= _FREE or self._clock() - self._ended >= _SHARE * self._took

    def begin(self) -> None:
        """Begins a look."""
        self._began = self._clock()

    def end(self, *, is_waiting: bool) -> None:
        """Ends a look.

        Args:
            is_waiting: True if it found something that has to be seen again.
        """
        self._ended = self._clock()
        self._took = self._ended - self._began
        if self._is_odd:
            self._hurried = self._steps
        self._looked, self._seen = self._steps, self._numbers
        self._is_odd, self._is_waiting = False, is_waiting
