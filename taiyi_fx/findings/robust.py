"""Medians in place of means: one wild number does not hide another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_TO_SIGMA = 1.4826
"""The median absolute deviation times this is the standard deviation of normal numbers."""


def spread(values: Numbers) -> float:
    """The robust standard deviation: 1.4826 times the median absolute deviation."""
    return float(_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def spreads(table: Numbers) -> Numbers:
    """The robust standard deviation of each column."""
    return _TO_SIGMA * np.median(np.abs(table - np.median(table, axis=0)), axis=0)


def smooth(values: Numbers, width: int = 5) -> Numbers:
    """The running median; at the ends of fewer numbers."""
    padded = np.pad(values, width // 2, constant_values=np.nan)
    return np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def log10(values: Numbers) -> Numbers:
    """The logarithm of sizes; of zero that of the smallest normal float32."""
    return np.log10(np.maximum(np.abs(values), 1.2e-38))


_LAST = 128
"""Numbers that a spike is compared with."""
_FEWEST = 32


def trailing_scores(values: Numbers) -> tuple[Numbers, Numbers]:
    """Robust deviations of each number from the median of up to 128 before it, and the median.

    NaN for the first 32. Where those before are equal, any other number is infinitely far.
    """
    scores, medians = np.full((2, len(values)), np.nan)
    for i in range(_FEWEST, len(values)):
        before = values[max(0, i - _LAST) : i]
        medians[i] = np.median(before)
        scores[i] = (values[i] - medians[i]) / spread(before)
    return scores, medians
