"""The factor that a training multiplied its gradients by: clipping, or a loss scale taken out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

_foreach_norm: Any = torch._foreach_norm  # pyright: ignore[reportPrivateImportUsage]
_HALVES = {torch.float16, torch.bfloat16}
_REACH = 8
"""So many numbers beside an estimate are tried: a mean of ratios is within one or two of it."""


def norms_of(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The norm of each gradient, where there is one; those of half precision in float32."""
    found: dict[int, Tensor] = {}
    dense = [g for g in gradients if g is not None and g.layout is torch.strided]
    for kind in (torch.float32, None):
        some = [g for g in dense if (g.dtype in _HALVES) == (kind is not None)]
        if some:
            found |= zip(map(id, some), _foreach_norm(some, 2, kind), strict=True)
    return [found.get(id(g)) for g in gradients]


def common_factor(now: Sequence[Tensor | None], then: Sequence[Tensor | None]) -> float | None:
    """The factor from one list of norms to another: 1 if they are equal, None if there is none.

    Norms that part by their last bits alone have none: they are of other gradients.
    """
    both = zip(now, then, strict=False)
    pairs = [(float(a), float(b)) for a, b in both if a is not None and b is not None]
    if all(a == b for a, b in pairs):
        return 1.0
    ratios = [b / a for a, b in pairs if a]
    is_common = ratios and max(ratios) - min(ratios) <= 1e-3 * abs(max(ratios))
    return fmean(ratios) if is_common and abs(ratios[0] - 1) > 1e-6 else None


def exact_factor(
    gradients: Sequence[Tensor | None], then: Sequence[Tensor | None], about: float
) -> float:
    """The factor that makes norms the very ones of then, or the estimate if none near it does.

    A ratio of norms is off by their rounding, and a gradient that was multiplied by it has other
    bits. Those who multiply do so by a number of the gradients' type, or of float32.

    Args:
        gradients: The gradients before.
        then: The norms after.
        about: An estimate.
    """
    both = zip(gradients, then, strict=False)
    pairs = [(g, n) for g, n in both if g is not None and n is not None]
    is_double = any(g.dtype == torch.float64 for g, _ in pairs)
    for factor in _nearest(about, np.float64 if is_double else np.float32):
        if all(norms_of([g * factor]) == [norm] for g, norm in pairs):
            return factor
    return about


def _nearest(about: float, kind: type[np.floating[Any]]) -> Iterator[float]:
    """Numbers of a type, the nearest first."""
    below = above = kind(about)
    yield float(below)
    for _ in range(_REACH):
        below, above = np.nextafter(below, kind(-np.inf)), np.nextafter(above, kind(np.inf))
        yield from (float(below), float(above))
