"""Siblings that began alike and part: it is those that move that are odd, be they the most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.lasting import since
from taiyi_fx.findings.facts.robust import Numbers, median, medians

_FACTOR = 1.3
"""Powers of ten by which one leaves what it was."""
_FIRST, _AT_ONCE = 3, 2
"""Steps in which it is known what was in the beginning, and those that are one moment."""
_TWO, _MANY = 2, 0.4
"""How many have to stay what they were, and the share that has to leave: of fewer that leave each
differs from the median, and of more that does from those that stay."""


class Parting(NamedTuple):
    """The first of several siblings that leave what they were.

    Attributes:
        row: Its row in the table.
        column: That from which on it is far from what it was.
        powers: Powers of ten by which it is now.
        stayed: The rows of those that are what they were.
    """

    row: int
    column: int
    powers: float
    stayed: frozenset[int]


def first_to_part(table: Numbers) -> Parting | None:
    """The first sibling to leave what it was, of many that do while others stay; None if none do.

    Of several at about the same step, it is the first in the order of rows: what one hands on moves
    those behind it, too.

    Args:
        table: The logarithms of sizes to base ten, a row for each sibling and a column for a step.
    """
    starts = medians(table[:, :_FIRST].T)
    moved = table - starts[:, None]
    last = np.abs(moved[:, -_FIRST:])
    parted, stayed = (last > _FACTOR).all(1), (last < _FACTOR / 2).all(1)
    is_alike = np.abs(starts - median(starts)).max() < _FACTOR / 2
    # Where some are on their way, all go, and the first of a chain the farthest.
    is_apart = bool((parted | stayed).all())
    if not is_alike or not is_apart or stayed.sum() < _TWO or parted.mean() < _MANY:
        return None
    columns = {j: since(np.abs(moved[j]) > _FACTOR) for j in np.flatnonzero(parted).tolist()}
    at_once = min(columns.values()) + _AT_ONCE
    row, column = next((j, column) for j, column in columns.items() if column <= at_once)
    others = frozenset(np.flatnonzero(stayed).tolist())
    return Parting(row, column, float(moved[row, -1]), others)
