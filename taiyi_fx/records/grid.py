"""One quantity of all modules over the steps, as a heat map or a comparison takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Grid(NamedTuple):
    """One quantity of all modules that have it.

    Attributes:
        modules: Names, with their calls, in the order of their first number.
        steps: Ascending, int64.
        values: float64, of shape ``(modules, steps)``; NaN where there is no number.
        present: Booleans of the same shape: True where a number was recorded, which may be NaN.
    """

    modules: tuple[str, ...]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]


def grid(modules: Sequence[str], rows: ArrayLike, steps: ArrayLike, values: ArrayLike) -> Grid:
    """A grid of points; of several at one module and step the last counts.

    Args:
        modules: Their names.
        rows: Of each point, the index of its module.
        steps: Of each point, its step.
        values: Of each point, its number.
    """
    at = np.asarray(rows, np.intp)
    known, columns = np.unique(np.asarray(steps, np.int64), return_inverse=True)
    shape = len(modules), len(known)
    found: NDArray[Any] = np.full(shape, np.nan)
    present = np.zeros(shape, np.bool_)
    found[at, columns] = np.asarray(values, np.float64)
    present[at, columns] = True
    return Grid(tuple(modules), known, found, present)
