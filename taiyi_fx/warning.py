"""Warnings at the line of the user's code that led to them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence


class MonitorWarning(UserWarning):
    """A configured quantity has no value, or could not be computed."""


def warn(text: str) -> None:
    """Warns at the line that called into this package."""
    level, frame = 1, sys._getframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, MonitorWarning, stacklevel=level)


def warn_of(failures: Sequence[str]) -> None:
    """Gives one warning of all failures, where there are any."""
    if failures:
        warn("\n".join(failures))


class WarnOnce:
    """Warns of each matter once."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def of(self, matter: str, text: str) -> None:
        """Warns of a matter, unless it was warned of before."""
        if matter not in self._warned:
            self._warned.add(matter)
            warn(text)


def _is_ours(name: str) -> bool:
    package = __name__.partition(".")[0]
    return name in (package, "contextlib") or name.startswith(f"{package}.")
