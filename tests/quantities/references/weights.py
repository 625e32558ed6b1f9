"""Spectra of weights in float64, from singular values and by loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def singular_values(weight) -> NDArray[np.float64]:
    """Those of a weight as a matrix, axis 0 by the rest."""
    matrix = np.asarray(weight, dtype=np.float64)
    matrix = matrix.reshape(len(matrix), -1) if matrix.ndim else matrix.reshape(1, 1)
    if not np.isfinite(matrix).all():
        return np.full(min(matrix.shape), np.nan)
    return np.linalg.svd(matrix, compute_uv=False)


def parameter(s, found):
    """The parameter that the option names."""
    return found.get(s.options.get("param", "weight"))


def spectral_norm(s):
    """The largest."""
    weight = parameter(s, s.parameters)
    return None if weight is None else singular_values(weight)[0]


def weight_stable_rank(s):
    """The sum of their squares over the largest square."""
    weight = parameter(s, s.parameters)
    if weight is None:
        return None
    sigma = singular_values(weight)
    with np.errstate(invalid="ignore"):
        return np.nan if sigma[0] == 0 else ((sigma / sigma[0]) ** 2).sum()


def power_law(values) -> tuple[float, float]:
    """The exponent and distance of the best tail, one tail after the other.

    Each number of the sorted list but the last begins a tail. Its exponent is the maximum of the
    likelihood, its distance the largest difference of the two cumulative distributions.
    """
    ordered = sorted(values)
    best = (float("nan"), float("inf"))
    for i, smallest in enumerate(ordered[:-1]):
        tail = ordered[i:]
        total = sum(np.log(x / smallest) for x in tail)
        if total <= 0:
            continue
        alpha = 1 + len(tail) / total
        expected = [1 - (x / smallest) ** (1 - alpha) for x in tail]
        distance = max(abs(e - k / len(tail)) for k, e in enumerate(expected))
        if distance < best[1]:
            best = (alpha, distance)
    return best
