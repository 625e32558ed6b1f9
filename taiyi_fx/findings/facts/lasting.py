"""States that last: at the end of a series, and since when."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS = 8
"""Numbers that a state has to last."""


def lasting(is_so: NDArray[np.bool_]) -> bool:
    """True if it is so at all of the last half, of at least eight numbers."""
    return len(is_so) >= STEPS and bool(is_so[-max(STEPS, len(is_so) // 2) :].all())


def ends(is_so: NDArray[np.bool_]) -> bool:
    """True if it is so at the last fifth, of at least eight numbers: enough of what never is well.

    A zero that is exact is no stage of a training, however late it comes.
    """
    return len(is_so) >= STEPS and bool(is_so[-max(STEPS, len(is_so) // 5) :].all())


def mostly(is_so: NDArray[np.bool_]) -> bool:
    """True if it is so at the last eight numbers, and at nine of ten of the last half."""
    last = is_so[-max(STEPS, len(is_so) // 2) :]
    return len(is_so) >= STEPS and bool(is_so[-STEPS:].all() and last.mean() > 0.9)


def since(is_so: NDArray[np.bool_]) -> int:
    """The index from which on it is so up to the end."""
    others = np.flatnonzero(~is_so)
    return int(others[-1]) + 1 if len(others) else 0
