"""When to look: often in the beginning, then rarely."""

from __future__ import annotations

FIRST, MOST, SURE = 8, 32, 4
_DOUBLES = 64
_SHARE = 4
RAREST = 512


class Pace:
    """Counts steps, and decides after which of those with numbers rules are applied.

    They are after 8, 16, 32 and 64 steps, of which 8 have numbers; then each time after a quarter
    of the steps that there were, 32 at least and 512 at most. Where a finding was new and waits to
    be seen again it is when 4 more steps have numbers, or 32 have passed; and where something is
    odd at once: the first time, and again when 32 steps have passed.

    No clock decides: what a look finds may make readings more frequent, and two trainings that are
    alike are to be read at the same steps.

    Attributes:
        rarest: The most steps between two looks while nothing waits or is odd.
    """

    def __init__(self) -> None:
        self.rarest = RAREST
        self.clear()

    def clear(self) -> None:
        """Begins anew, as for another training."""
        self._steps = self._looked = 0
        self._numbers = self._seen = 0
        self._hurried: int | None = None
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
        return self._numbers >= FIRST and self._steps - self._looked >= self._gap

    @property
    def _gap(self) -> int:
        """The steps from the last look to the next."""
        if self._is_waiting:
            return MOST
        if self._looked < _DOUBLES:
            return min(max(FIRST, self._looked), MOST)
        return min(max(MOST, self._looked // _SHARE), self.rarest)

    @property
    def has_unseen(self) -> bool:
        """True if there are enough numbers to look at, of which some came after the last look."""
        return self._numbers >= FIRST and self._numbers > self._seen

    def end(self, *, is_waiting: bool) -> None:
        """Ends a look.

        Args:
            is_waiting: True if it found something that has to be seen again.
        """
        if self._is_odd:
            self._hurried = self._steps
        self._looked, self._seen = self._steps, self._numbers
        self._is_odd, self._is_waiting = False, is_waiting
