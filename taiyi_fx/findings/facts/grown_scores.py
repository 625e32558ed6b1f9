"""Scores of attention that are multiplied by the square root of their features, not divided."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    REARRANGES,
    Uses,
    behind_factors,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)

_PRODUCTS = ("Bmm", "Mm")
_MASKS = REARRANGES | {"Add", "Sub", "MaskedFill", "Where"}
"""Functions between a product and its softmax that leave the scale of scores as it is."""
_FUSED = "ScaledDotProduct"
_SIDES = 2
_FEW = 4
"""Features below which their square root is any factor."""
_SAME = 1e-3


class GrownScores(NamedTuple):
    """Scores whose factor is the square root of the features that each is a sum over.

    Attributes:
        module: The module whose parameters come next before them; empty if it is not known.
        features: The features.
        factor: The factor, as the code has it.
    """

    module: str
    features: int
    factor: float


def grown_scores(uses: Uses) -> Iterator[GrownScores]:
    """The scores of attention with the square root of their features for a factor.

    That of the scores or of the queries; no other factor is told, as one of cosines may be any.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        factor, features = _of_fused(node) if name_of(node).startswith(_FUSED) else _of_plain(node)
        if features >= _FEW and math.isclose(factor, math.sqrt(features), rel_tol=_SAME):
            yield GrownScores(uses.owner(node), features, factor)


def _of_fused(node: Any) -> tuple[float, int]:
    """The factor and the features of what ``scaled_dot_product_attention`` made."""
    factor, queries = getattr(node, "_saved_scale", None), operands_of(node)[0]
    return (0.0, 0) if factor is None or queries is None else (factor, shape_of(queries)[-1])


def _of_plain(node: Any) -> tuple[float, int]:
    """Those of the scores that a softmax is of; no features of any other function."""
    if name_of(node) != "Softmax":
        return 0.0, 0
    factor, product = behind_factors(operands_of(node)[0], _MASKS)
    if product is None or name_of(product) not in _PRODUCTS or len(makers_of(product)) < _SIDES:
        return 0.0, 0
    sides = operands_of(product)
    own = math.prod(behind_factors(side)[0] for side in sides)
    return factor * own, shape_of(sides[0])[-1]
