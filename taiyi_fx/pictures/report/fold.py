"""Numbers of many series over the same stretches of steps: means, extremes, counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Numbers(NamedTuple):
    """Numbers of many series, by their row, then by step, then in the order of their making.

    Attributes:
        rows: How many series there are.
        row: Of each number its series, int64.
        step: int64.
        value: float64.
    """

    rows: int
    row: NDArray[np.int64]
    step: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Folded:
    """Numbers of many series over stretches of steps, each of which holds a number at least.

    Attributes:
        start: The first step with a number in each stretch, int64, ascending.
        end: The last.
        mean: Of the finite numbers, float64, of shape ``(series, stretches)``; NaN without any.
        min: Their smallest.
        max: Their largest.
        count: How many finite numbers there are.
        nan: How many NaN.
        inf: How many infinite ones, of both signs.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    mean: NDArray[np.float64]
    min: NDArray[np.float64]
    max: NDArray[np.float64]
    count: NDArray[np.int64]
    nan: NDArray[np.int64]
    inf: NDArray[np.int64]

    @property
    def is_raw(self) -> bool:
        """Whether each stretch is a step, with one number of a series at most."""
        most = (self.count + self.nan + self.inf).max(initial=0)
        return bool(most <= 1 and (self.start == self.end).all())


def sorted_numbers(
    rows: int, row: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.float64]
) -> Numbers:
    """Numbers in the order of their making, sorted."""
    # By sixteen bits numpy sorts in linear time; most numbers are made step by step.
    order = np.argsort(row.astype(np.int16) if rows < 2**15 else row, kind="stable")
    row, step, value = row[order], step[order], value[order]
    if ((np.diff(step) < 0) & (np.diff(row) == 0)).any():
        order = np.lexsort((step, row))
        row, step, value = row[order], step[order], value[order]
    return Numbers(rows, row, step, value)


def fold(numbers: Numbers, width: int) -> Folded:
    """Folds numbers over stretches of so many steps, which begin at multiples of that.

    A mean of finite numbers is finite: it is the sum of each divided by their count.
    """
    steps = np.unique(numbers.step)
    first = _changes(steps // width)
    last = np.append(first, len(steps))[1:] - 1
    shape = numbers.rows, len(first)
    column = np.searchsorted(steps[first], numbers.step, side="right") - 1
    cell = numbers.row * len(first) + column
    begins = _changes(cell)
    at = cell[begins]
    is_finite, is_nan = np.isfinite(numbers.value), np.isnan(numbers.value)
    count = _spread(shape, at, np.add.reduceat(is_finite, begins, dtype=np.int64), 0)
    nan = _spread(shape, at, np.add.reduceat(is_nan, begins, dtype=np.int64), 0)
    every = _spread(shape, at, np.diff(begins, append=len(cell)), 0)
    share = np.where(is_finite, numbers.value, 0) / np.maximum(count.reshape(-1)[cell], 1)
    low = np.minimum.reduceat(np.where(is_finite, numbers.value, np.inf), begins)
    high = np.maximum.reduceat(np.where(is_finite, numbers.value, -np.inf), begins)
    mean = np.clip(np.add.reduceat(share, begins), low, high)
    ends = (_spread(shape, at, x, np.nan) for x in (mean, low, high))
    mean, low, high = (np.where(count > 0, x, np.nan) for x in ends)
    return Folded(steps[first], steps[last], mean, low, high, count, nan, every - count - nan)


def _changes(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where stretches of equal values begin."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])


def _spread(
    shape: tuple[int, int], at: NDArray[np.int64], found: NDArray[Any], nothing: float
) -> NDArray[Any]:
    """What was found at some cells of a table, and nothing elsewhere."""
    table = np.full(shape, nothing, found.dtype)
    table.reshape(-1)[at] = found
    return table


def number_type(values: NDArray[np.float64]) -> np.dtype[Any]:
    """float32 where it has the range of all finite values, else float64; both little-endian."""
    limits = np.finfo(np.float32)
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    fits = sizes.max(initial=0) <= limits.max and sizes.min(initial=1) >= limits.tiny
    return np.dtype("<f4" if fits else "<f8")


def widths() -> Iterator[int]:
    """Round numbers of steps in ascending order: 1, 2, 5, 10, 20, 25, 50, 100, ..."""
    yield from (1, 2, 5)
    power = 10
    while True:
        yield from (power, 2 * power, 25 * power // 10, 5 * power)
        power *= 10
