"""Rows of a training of any length: the first, the latest, and evenly some between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Row = TypeVar("Row")

FIRST, BETWEEN, LATEST = 16, 48, 64


class Thinned(Generic[Row]):
    """At most 128 rows of all that were added.

    Rules compare a training with its beginning, so a window of the latest rows alone would take a
    loss that has converged for one that never fell. The rows between are those at multiples of a
    stride, which doubles whenever there are too many.
    """

    def __init__(self) -> None:
        self._first: list[Row] = []
        self._between: list[Row] = []
        self._latest: deque[Row] = deque()
        self._stride = 1
        self._passed = 0

    def add(self, row: Row) -> None:
        """Adds a row behind all others."""
        self._latest.append(row)
        if len(self._latest) <= LATEST:
            return
        oldest = self._latest.popleft()
        if len(self._first) < FIRST:
            self._first.append(oldest)
        else:
            self._keep_between(oldest)

    def _keep_between(self, row: Row) -> None:
        if self._passed % self._stride == 0:
            self._between.append(row)
        self._passed += 1
        if len(self._between) > BETWEEN:
            self._between = self._between[::2]
            self._stride *= 2

    def __iter__(self) -> Iterator[Row]:
        yield from self._first
        yield from self._between
        yield from self._latest

    def __len__(self) -> int:
        return len(self._first) + len(self._between) + len(self._latest)
