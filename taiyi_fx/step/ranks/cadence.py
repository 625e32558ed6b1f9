"""A wish to read more densely, until it is granted: by this rank alone, or by all joined ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Cadence:
    """The steps for which adaptive schedules are to be due at each step.

    Ranks must agree on what is due. So a wish travels with the next exchange, which all of them
    take part in, and all of them are granted the longest.

    Attributes:
        wished: The number of steps that this rank wishes for; 0 once it is granted.
        granted: The number of steps granted since it was last taken.
    """

    wished: int = 0
    granted: int = 0

    def wish(self, steps: int) -> None:
        """Adds a wish; the longest counts."""
        self.wished = max(self.wished, steps)

    def grant(self, steps: int) -> None:
        """Grants a number of steps, which fulfils this rank's wish."""
        self.wished, self.granted = 0, max(self.granted, steps)

    def take(self) -> int:
        """The number of steps granted since the last call."""
        taken, self.granted = self.granted, 0
        return taken
