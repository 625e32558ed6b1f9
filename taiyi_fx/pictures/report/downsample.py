"""Downsampling: numbers of many series as means, extremes and counts of stretches of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Numbers(NamedTuple):
    """Numbers of many series, sorted by series, then by step, then as they were recorded.

    Attributes:
        rows: The number of series.
        row: The series of each number, int64.
        step: The step of each number, int64.
        value: The numbers, float64.
    """

    rows: int
    row: NDArray[np.int64]
    step: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Downsampled:
    """Numbers of many series over the same stretches of steps; no stretch is empty in all series.

    Attributes:
        start: The first step with a number in each stretch, int64, ascending.
        end: The last step with a number in each stretch, int64.
        mean: Mean of the finite numbers, float64, shape ``(series, stretches)``; NaN without any.
        min: The smallest finite number; NaN without any.
        max: The largest finite number; NaN without any.
        count: The number of finite numbers.
        nan: The number of NaNs.
        inf: The number of infinite numbers of both signs.
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
        """True if each stretch is one step, with at most one number of each series."""
        most = (self.count + self.nan + self.inf).max(initial=0)
        return bool(most <= 1 and (self.start == self.end).all())


def sorted_numbers(
    rows: int, row: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.float64]
) -> Numbers:
    """Numbers, given in the order of recording, sorted by series and step."""
    # numpy sorts 16-bit integers in linear time (a radix sort). Steps mostly ascend already, so one
    # stable sort by series is enough; only a run that went back in steps needs the second sort.
    order = np.argsort(row.astype(np.int16) if rows < 2**15 else row, kind="stable")
    row, step, value = row[order], step[order], value[order]
    if ((np.diff(step) < 0) & (np.diff(row) == 0)).any():
        order = np.lexsort((step, row))
        row, step, value = row[order], step[order], value[order]
    return Numbers(rows, row, step, value)


def downsample(numbers: Numbers, width: int) -> Downsampled:
    """The numbers over stretches of ``width`` steps, which begin at multiples of it.

    The mean of finite numbers is finite: each is divided by their count before they are summed.
    """
    # Numbers are sorted by series and step, so those of one cell (a series in a stretch) lie next
    # to each other. `begins` is where cells begin, and `reduceat` reduces from each of these to the
    # next: a few passes over all numbers, and no loop over cells. Empty cells are filled in last.
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
    return Downsampled(steps[first], steps[last], mean, low, high, count, nan, every - count - nan)


def _changes(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """The indices at which runs of equal values begin."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])


def _spread(
    shape: tuple[int, int], at: NDArray[np.int64], found: NDArray[Any], nothing: float
) -> NDArray[Any]:
    """A table with values at some cells, and ``nothing`` at the others."""
    table = np.full(shape, nothing, found.dtype)
    table.reshape(-1)[at] = found
    return table


def number_type(values: NDArray[np.float64]) -> np.dtype[Any]:
    """float32 if all finite values are in its range, else float64; both little-endian."""
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
