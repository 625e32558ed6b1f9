"""Vectors as histograms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from taiyi_fx.quantities.binned import EDGES, FINITE, are_counts
from taiyi_fx.records.record import Record
from taiyi_fx.writers.values import doubles


@dataclass(frozen=True, eq=False)
class Bins:
    """A histogram of the finite elements of a tensor.

    Attributes:
        edges: The ends of the bins in ascending order, one more than there are bins; none where
            nothing is finite.
        counts: The number of elements in each bin.
        not_finite: The number of elements that are NaN or infinite.
    """

    edges: np.ndarray
    counts: np.ndarray
    not_finite: int


def bins_of(record: Record, unit: str, most: int = 64) -> Bins:
    """The bins of a tensor's elements: equal ones, or of counts by power of two their own.

    Complex elements count with their absolute value.

    Args:
        record: A record of a tensor.
        unit: The unit of its series.
        most: The largest number of bins; a ``Histogram`` has up to 511.
    """
    x = record.value
    assert isinstance(x, Tensor)
    if x.ndim == 1 and are_counts(unit, len(x)):
        return _trimmed(x.numpy())
    return _equal(doubles(x).reshape(-1).numpy(), most)


def _trimmed(counts: np.ndarray) -> Bins:
    """A histogram without the empty bins on both sides."""
    finite = counts[FINITE]
    (filled,) = np.nonzero(finite)
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 0)
    not_finite = int(counts.sum() - finite.sum())
    kept = EDGES[first : last + 1] if len(filled) else EDGES[:0]
    return Bins(kept, finite[first:last], not_finite)


def _equal(x: np.ndarray, most: int) -> Bins:
    finite = x[np.isfinite(x)]
    not_finite = len(x) - len(finite)
    if not len(finite):
        return Bins(finite, np.zeros(0, dtype=np.int64), not_finite)
    low, high = finite.min(), finite.max()
    share = np.linspace(0, 1, most + 1)[1:-1]
    # Not low + share * (high - low): the span may be infinite.
    between = np.unique((1 - share) * low + share * high)
    between = between[(between > low) & (between < high)]
    index = np.searchsorted(between, finite, side="right")
    edges = np.concatenate([[low], between, [high]])
    return Bins(edges, np.bincount(index, minlength=len(edges) - 1), not_finite)
