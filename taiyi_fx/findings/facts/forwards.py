"""The forward of a module as calls and ways between them, by which siblings are compared."""

from __future__ import annotations

from typing import NamedTuple

OUTSIDE = ""
"""Where what a module is given comes from, and where what it returns goes."""


class Forward(NamedTuple):
    """The calls that a module's own forward makes, and what passes between them.

    A function is named as ``"add()"``, a module within it as ``"norm1"``.

    Attributes:
        calls: The functions and the modules within it that it calls, each with the number of times.
        ways: Two calls each, of which the second is given what the first makes; or `OUTSIDE`.
        is_followed: True if it stayed Python: of its functions, those that join several are known.
    """

    calls: frozenset[tuple[str, int]]
    ways: frozenset[tuple[str, str]]
    is_followed: bool = False

    def calls_beside(self, other: Forward) -> dict[str, tuple[int, int]]:
        """The calls that it makes more or less often than another, with the numbers of both."""
        own, others = dict(self.calls), dict(other.calls)
        every = {name: (own.get(name, 0), others.get(name, 0)) for name in {**others, **own}}
        return {name: times for name, times in sorted(every.items()) if times[0] != times[1]}
