"""Wishes to read more densely, and to stop, until they are granted: alone, or by all ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Cadence:
    """The steps for which adaptive schedules are to be due at each step, or that none follows.

    Ranks must agree on what is due, and stop together. So a wish travels with the next exchange,
    which all of them take part in, and all of them are granted the longest.

    Attributes:
        wished: The number of steps that this rank wishes for; 0 once it is granted.
        granted: The number of steps granted since it was last taken.
        wishes_end: True if this rank wishes that training stops.
        is_end: True once that is granted.
    """

    wished: int = 0
    granted: int = 0
    wishes_end: bool = False
    is_end: bool = False

    @property
    def is_idle(self) -> bool:
        """True if nothing is wished, and nothing granted that was not taken."""
        return not (self.wished or self.granted or self.wishes_end)

    def clear(self) -> None:
        """Forgets all wishes, as for another training."""
        self.wished = self.granted = 0
        self.wishes_end = self.is_end = False

    def wish(self, steps: int) -> None:
        """Adds a wish; the longest counts."""
        self.wished = max(self.wished, steps)

    def grant(self, steps: int, *, end: bool = False) -> None:
        """Grants a number of steps, which fulfils this rank's wish, and the end if it is one."""
        self.wished, self.granted = 0, max(self.granted, steps)
        self.is_end = self.is_end or end

    def take(self) -> int:
        """The number of steps granted since the last call."""
        taken, self.granted = self.granted, 0
        return taken
