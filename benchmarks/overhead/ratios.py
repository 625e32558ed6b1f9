"""From nanoseconds to cells of a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def ratio_cell(ours: Sequence[float], base: Sequence[float]) -> str:
    """The median of the rounds' ratios, and between which two of them half lie."""
    ratios = [a / b for a, b in zip(ours, base, strict=True)]
    low, middle, high = quartiles(ratios)
    return f"{middle:.2f} [{low:.2f}-{high:.2f}]"


def milliseconds_cell(spent: Sequence[float], steps: int) -> str:
    """The median of what one step took, where each number is of several."""
    return f"{statistics.median(spent) / steps / 1e6:.3g} ms"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median, the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def summed(values: Sequence[float], group: int) -> list[float]:
    """The sums of groups of neighbours; what is left over is dropped."""
    ends = range(group, len(values) + 1, group)
    return [sum(values[end - group : end]) for end in ends]
