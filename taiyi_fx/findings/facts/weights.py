"""Weights of a loss's elements that do not what they are for: of what is rare, and of a mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.autograd import (
    Uses,
    makers_of,
    name_of,
    operands_of,
    saved_by,
    shape_of,
)

_OF_TWO, _OF_CLASSES = "BinaryCrossEntropyWithLogits", ("NllLoss", "NllLoss2D")
_MEANS = frozenset(
    "Mean Sum MseLoss L1Loss SmoothL1Loss HuberLoss BinaryCrossEntropy".split()
).union((_OF_TWO, *_OF_CLASSES))
"""Functions that make one number of all elements."""
_ENDS = frozenset({"Sum", "Mean", "Div", "Mul", "Add", "Sub", "Neg"})
"""Functions between a loss and what it is the mean of."""
_CASES, _FEW = 32, 2
"""Targets of a batch that tell shares of classes, and of a class that is counted."""
_RARE = 0.25
_TIMES = 3.0
"""The factor within which a weight is what the shares say."""
_SPREAD, _ALIKE = 0.5, 0.9
"""The deviation of the logarithms of counts, and their correlation with those of weights."""


class OddWeights(NamedTuple):
    """Weights of a cross entropy by which what is rare counts for even less.

    Attributes:
        weight: The weight of the rarest class.
        share: The share of the targets of the first batch that are of it.
        is_of_two: True for ``pos_weight``, of yes or no.
    """

    weight: float
    share: float
    is_of_two: bool


def odd_weights(uses: Uses) -> OddWeights | None:
    """Weights that grow with the shares of their classes in the targets, as none are meant to.

    None without weights, of several cross entropies, of few targets, and after a backward, which
    frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    ends = [x for x in uses.nodes if name_of(x) in (_OF_TWO, *_OF_CLASSES)]
    if len(ends) != 1:
        return None
    name = "pos_weight" if (is_of_two := name_of(ends[0]) == _OF_TWO) else "weight"
    targets, weights = saved_by(ends[0], "target"), saved_by(ends[0], name)
    if targets is None or weights is None or targets.numel() < _CASES:
        return None
    own = np.asarray(weights.flatten().tolist(), np.float64)
    is_of_last_axis = len(own) == 1 or (weights.ndim == 1 and targets.shape[-1] == len(own))
    if not (own > 0).all() or (is_of_two and not is_of_last_axis):
        return None
    return _of_two(targets, own) if is_of_two else _of_classes(targets, own)


def _of_two(targets: Any, weights: NDArray[np.float64]) -> OddWeights | None:
    """A positive weight that is the odds themselves, where it should be one over them."""
    rows = targets.float().reshape(-1, len(weights))
    shares = np.asarray(((rows.sum(0) + 0.5) / (len(rows) + 1)).tolist())  # of none, too
    of_odds = weights * (1 - shares) / shares
    is_odd = (shares < _RARE) & (of_odds > 1 / _TIMES) & (of_odds < _TIMES)
    if is_odd.mean() <= 0.5:
        return None
    i = int(np.flatnonzero(is_odd)[0])
    return OddWeights(float(weights[i]), float(rows.mean(0)[i]), is_of_two=True)


def _of_classes(targets: Any, weights: NDArray[np.float64]) -> OddWeights | None:
    """Weights of classes that are their counts, or follow these."""
    numbers = np.asarray(targets.flatten().tolist(), np.int64)
    counts = np.bincount(numbers[(numbers >= 0) & (numbers < len(weights))], minlength=len(weights))
    is_known = counts >= _FEW
    if is_known.sum() < 2:
        return None
    of_counts, of_weights = np.log(counts[is_known]), np.log(weights[is_known])
    spread = float(of_counts.std())
    if spread < _SPREAD or not of_weights.std():
        return None
    alike = float(np.corrcoef(of_counts, of_weights)[0, 1])
    if alike < _ALIKE or not 1 / _TIMES < of_weights.std() / spread < _TIMES:
        return None
    rarest = int(np.flatnonzero(is_known)[counts[is_known].argmin()])
    share = float(counts[rarest] / len(numbers))
    return OddWeights(float(weights[rarest]), share, is_of_two=False)


def weighted_means(uses: Uses) -> Iterator[tuple[int, ...]]:
    """The shapes of weights, or of masks, that the mean of all elements is multiplied by.

    None after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    near = uses.nodes[:1]
    for node in near:  # which grows on the way
        if name_of(node) in _ENDS:
            near += [x for x in makers_of(node) if all(x is not other for other in near)]
        operands = operands_of(node) if name_of(node) == "Mul" else []
        if len(operands) != 2 or operands.count(None) != 1:
            continue
        is_first = operands[1] is None
        mean = operands[0 if is_first else 1]
        factors = saved_by(node, "other" if is_first else "self")
        is_mean = name_of(mean) in _MEANS and shape_of(mean) == ()
        if not is_mean or factors is None or not factors.numel():
            continue
        if bool((factors != factors.flatten()[0]).any()):
            yield tuple(factors.shape)
