"""Numbers at which to look at once: not finite, or a spike of the loss."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

_TO_SIGMA = 1.4826
_SIGMAS = 6.0
"""Beyond which OLMo-core calls a loss a spike."""
_FEW, _MANY = 32, 128


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
