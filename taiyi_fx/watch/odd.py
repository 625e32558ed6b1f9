"""Numbers at which to look at once: not finite, a spike of the loss, or far above all before."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

_TO_SIGMA = 1.4826
_SIGMAS = 6.0
"""Beyond which OLMo-core calls a loss a spike."""
_FEW, _MANY = 32, 128
_FACTOR = 100.0
_KNOWN = 8
"""Numbers that tell how large they are."""


def is_not_finite(values: Sequence[float], *, is_count: bool) -> bool:
    """True if a number is NaN or Inf; or if numbers count such elements, and one is above 0."""
    if is_count:
        return any(values)
    # A sum is one operation for all; one of large finite numbers may be infinite, too.
    return not math.isfinite(sum(values)) and not all(map(math.isfinite, values))


class Spikes:
    """The latest values of a loss, and the ones that lie far above them."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_MANY)

    def is_one(self, value: float) -> bool:
        """True if a value is 6 deviations above the median of the last 128; adds it to them.

        Deviations are by the median of absolute ones. Fewer than 32 values have no spike, and one
        that is not finite is none.
        """
        if not math.isfinite(value):
            return False
        is_high = len(self._latest) >= _FEW and value > max(self._latest)
        is_spike = is_high and self._is_far(value)
        self._latest.append(value)
        return is_spike

    def _is_far(self, value: float) -> bool:
        middle = statistics.median(self._latest)
        sigma = _TO_SIGMA * statistics.median(abs(x - middle) for x in self._latest)
        # A loss that hardly moves has next to no deviation.
        return value - middle > _SIGMAS * max(sigma, 1e-3 * abs(middle))


class Jumps:
    """The largest of some numbers, and the ones that lie far above it."""

    def __init__(self) -> None:
        self._largest = 0.0
        self._count = 0

    def is_one(self, value: float) -> bool:
        """True if a value is 100 times the largest of at least 8 before; adds it to them.

        One that is not finite is none, and nothing is where all before were 0.
        """
        if not self._largest < value < math.inf:
            self._count += 1
            return False
        is_jump = self._count >= _KNOWN and value > _FACTOR * self._largest > 0
        self._largest = value
        self._count += 1
        return is_jump
