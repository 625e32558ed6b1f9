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


def smooth(values: Numbers, width: int = 5) -> Numbers:
    """The running median; at the ends of fewer numbers."""
    padded = np.pad(values, width // 2, constant_values=np.nan)
    return np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def log10(values: Numbers) -> Numbers:
    """The logarithm of sizes; of zero that of the smallest normal float32."""
    return np.log10(np.maximum(np.abs(values), 1.2e-38))
