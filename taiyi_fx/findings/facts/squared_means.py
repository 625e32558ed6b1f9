"""Squares of a mean, in a loss that means the mean of squares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import Uses, maker_of, makers_of, name_of, shape_of

_DIFFERENCES = ("Sub", "Rsub", "Add")
_SQUARE = 2.0
_MANY = 8
"""Elements of which a mean is taken: those of fewer may be one number on purpose."""


def squared_means(uses: Uses) -> Iterator[Any]:
    """The squares of the mean of all differences, as ``(x - y).mean() ** 2`` is.

    Told where what the mean is of is a sum or a difference of computed numbers.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        is_square = name_of(node) == "Pow" and node._saved_exponent == _SQUARE
        mean = maker_of(node) if is_square and not shape_of(node) else None
        of = maker_of(mean) if mean is not None and name_of(mean) == "Mean" else None
        is_of_differences = of is not None and name_of(of) in _DIFFERENCES
        if is_of_differences and math.prod(shape_of(makers_of(mean)[0])) >= _MANY:
            yield node
