"""Runs that differ: series ranked by how much more they differ than runs of one group do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.pictures.report.chunks import Chunk
from taiyi_fx.quantities.health import is_of_errors

MOST = 50
"""The most differences that a page has."""

_LEAST_SPREAD = 0.01
"""The smallest spread that is believed, in powers of ten: two or three runs may agree by chance."""

Key: TypeAlias = tuple[str, str, str]
"""A module of the first run, a quantity and a mode."""


class Difference(NamedTuple):
    """A series that differs between the first group of runs and another one.

    Attributes:
        module: The module, as the first run has it.
        quantity: The quantity.
        mode: The mode.
        place: The place of the other group's first run among all runs.
        factor: How many times the first group's size the other's is.
        spread: By which factor runs of one group differ; None if no group has several.
    """

    module: str
    quantity: str
    mode: str
    place: int
    factor: float
    spread: float | None

    @property
    def is_beyond_spread(self) -> bool:
        """True if it is larger than that of runs of one group; also where no group has several."""
        least = 10**_LEAST_SPREAD if self.spread is None else max(self.spread, 10**_LEAST_SPREAD)
        return max(self.factor, 1 / self.factor) > least


def size(values: NDArray[Any]) -> float | None:
    """The typical size of a series of numbers, as a power of ten.

    It is the median of the second half, of all numbers that are finite and not 0; None without any.
    """
    row = np.abs(values.astype(np.float64))
    half = row[np.isfinite(row) & (row > 0)]
    half = half[len(half) // 2 :]
    return float(np.log10(np.median(half))) if len(half) else None


def sizes(series: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk]) -> dict[Key, float]:
    """The `size` of each series of a page."""
    found: dict[Key, float] = {}
    for one in series:
        chunk = chunks[one["chunk"]]
        if chunk.entry["kind"] != "numbers":
            continue
        names = [array["name"] for array in chunk.entry["arrays"]]
        typical = size(chunk.arrays[names.index("mean")][one["row"]])
        if typical is not None:
            key = (one.get("aligned", one["module"]), one["quantity"], one["mode"])
            found[key] = typical
    return found


def differences(
    groups: Sequence[Sequence[Mapping[Key, float]]], most: int | None = MOST
) -> list[Difference]:
    """The largest differences between the first group of runs and each other one.

    Where a group has several runs, as of one training with several seeds, their spread is the
    yardstick: what differs most in terms of it comes first. How exact a quantity is, is no size.

    Args:
        groups: Sizes of series, run by run and group by group.
        most: The largest number of them; None for all.
    """
    first, *others = groups
    ranked: list[tuple[float, Difference]] = []
    place = len(first)
    for other in others:
        shared = set.intersection(*(set(run) for run in (*first, *other)))
        told = sorted(key for key in shared if not is_of_errors(key[1]))
        ranked += [_difference(key, first, other, place) for key in told]
        place += len(other)
    ranked.sort(key=lambda pair: -pair[0])
    return [found for _, found in ranked[:most]]


def _difference(
    key: Key, first: Sequence[Mapping[Key, float]], other: Sequence[Mapping[Key, float]], place: int
) -> tuple[float, Difference]:
    """A difference after how far it stands out."""
    ours, theirs = ([run[key] for run in group] for group in (first, other))
    apart = float(np.median(theirs) - np.median(ours))
    spreads = [max(group) - min(group) for group in (ours, theirs) if len(group) > 1]
    if not spreads:
        return abs(apart), Difference(*key, place, 10**apart, None)
    spread = max(spreads)
    return abs(apart) / max(spread, _LEAST_SPREAD), Difference(*key, place, 10**apart, 10**spread)
