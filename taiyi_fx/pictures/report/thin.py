"""Thinning: of a series of too many vectors, the steps that tell most of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.quantities.binned import FINITE, are_counts

_BATCH = 512
"""Vectors that are read at once."""

Vectors = Callable[[int, Sequence[int]], Mapping[int, NDArray[Any]]]
"""Reads the vectors of a series at some steps."""


class Extent(NamedTuple):
    """The sizes of a vector that it is compared with others by.

    Attributes:
        low: Its smallest finite element; of counts by power of two the lowest bin with one.
        high: Its largest finite element; of counts by power of two the highest bin with one.
        size: The root of the sum of its finite elements' squares.
        bad: How many of its elements are not finite.
    """

    low: float
    high: float
    size: float
    bad: float


class Thinning:
    """Chooses steps of vectors; it reads each vector once, so it serves a run that goes on."""

    def __init__(self) -> None:
        self._extents: dict[int, dict[int, Extent]] = {}

    def chosen(
        self, read: Vectors, series: int, steps: Sequence[int], many: int, unit: str = ""
    ) -> list[int]:
        """So many of some steps, ascending: the last, the first, extremes, changes, some between.

        Args:
            read: Reads vectors.
            series: The series.
            steps: All its steps, ascending.
            many: How many are wanted, at least 1.
            unit: The unit of the series.
        """
        if len(steps) <= many:
            return list(steps)
        known = self._known(read, series, steps, unit)
        places = _places(np.array([known[step] for step in steps]))
        ranked = dict.fromkeys(steps[place] for place in places if 0 <= place < len(steps))
        telling = set([*ranked][:many])
        others = [step for step in steps if step not in telling]
        return sorted({*telling, *evenly(others, many - len(telling))})

    def _known(
        self, read: Vectors, series: int, steps: Sequence[int], unit: str
    ) -> dict[int, Extent]:
        known = self._extents.setdefault(series, {})
        missing = [step for step in steps if step not in known]
        for start in range(0, len(missing), _BATCH):
            found = read(series, missing[start : start + _BATCH])
            known.update((step, extent(x, unit)) for step, x in found.items())
        return known


def _places(table: NDArray[np.float64]) -> Iterator[int]:
    """Places of vectors that tell most: ends, the ends of what is not finite, extremes, changes."""
    yield from (len(table) - 1, 0)
    (bad,) = np.nonzero(table[:, 3])
    if len(bad):
        yield from (int(bad[0]), int(bad[0]) - 1, int(bad[-1]), int(bad[-1]) + 1)
    for column in (1, 0, 2):
        if np.isfinite(table[:, column]).any():
            yield int(np.nanargmax(table[:, column]))
            yield int(np.nanargmin(table[:, column]))
    with np.errstate(all="ignore"):
        change = np.abs(np.diff(np.log(np.maximum(table[:, 2], 1e-38))))
    for place in np.argsort(-np.nan_to_num(change), kind="stable")[:2].tolist():
        yield from (place + 1, place)


def extent(vector: NDArray[Any], unit: str = "") -> Extent:
    """The extent of a vector, or of counts by power of two."""
    x = np.abs(vector) if np.iscomplexobj(vector) else vector
    x = x.reshape(-1).astype(np.float64)
    if are_counts(unit, len(x)):
        (filled,) = np.nonzero(x[FINITE])
        low, high = (filled[0], filled[-1]) if len(filled) else (np.nan, np.nan)
        size, bad = np.linalg.norm(x[FINITE]), x[0] + x[-2:].sum()
        return Extent(float(low), float(high), float(size), float(bad))
    finite = x[np.isfinite(x)]
    if not len(finite):
        return Extent(np.nan, np.nan, np.nan, float(len(x)))
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(finite))
    return Extent(float(finite.min()), float(finite.max()), size, float(len(x) - len(finite)))


def evenly(steps: Sequence[int], many: int) -> list[int]:
    """A number of the steps, evenly spaced: with the last one, and from two on with the first."""
    if many <= 1:
        return [*steps[-1:]][:many]
    return [steps[place * (len(steps) - 1) // (many - 1)] for place in range(many)]
