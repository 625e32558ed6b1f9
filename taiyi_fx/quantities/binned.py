"""Counts of a tensor's elements by sign and power of two, the form of ``Histogram``, without torch.

A run stores the unit of each series, and writers and reports know the counts by it.
"""

from __future__ import annotations

import numpy as np

BY_POWER_OF_TWO = "elements by power of two"
"""The unit of a quantity whose value is the counts of `taiyi_fx.reductions.Histogram`."""

_POWERS = 2.0 ** np.arange(-126, 129)
EDGES = np.concatenate([-_POWERS[::-1], [0, 0], _POWERS])
"""The edges of the finite bins: `taiyi_fx.reductions.histogram_edges`."""

FINITE = slice(1, -2)
"""The counts of finite elements: before them is that of -Inf, behind them of +Inf and of NaN."""

OF_ZERO = len(_POWERS)
"""The index of the bin of zero alone, among the finite bins."""


def are_counts(unit: str, length: int) -> bool:
    """True for a vector of such counts: a file, or a quantity of a user's own, may say anything."""
    return unit == BY_POWER_OF_TWO and length == len(EDGES) + 2
