"""Squares of a mean, in a loss that means the mean of squares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import KEEPS, Uses, makers_of, name_of, shape_of

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
        mean = _maker_of(node) if is_square and not shape_of(node) else None
        of = _maker_of(mean) if mean is not None and name_of(mean) == "Mean" else None
        if of is not None and name_of(of) in _DIFFERENCES and math.prod(shape_of(of)) >= _MANY:
            yield node


def _maker_of(node: Any) -> Any:
    """The function that made the first operand, behind what hands all of it on."""
    made = next(iter(makers_of(node)), None)
    while made is not None and name_of(made) in KEEPS:
        made = next(iter(makers_of(made)), None)
    return made
