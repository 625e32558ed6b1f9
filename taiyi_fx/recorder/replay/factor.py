"""The factor that a training multiplied its gradients by: clipping, or a loss scale taken out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_foreach_norm: Any = torch._foreach_norm  # pyright: ignore[reportPrivateImportUsage]
_HALVES = {torch.float16, torch.bfloat16}
_REACH = 8
"""So many numbers beside an estimate are tried: a ratio of norms is within one or two of it."""
_HALVINGS = 30
"""Steps of a search, from the precision of a half down to that of float32 and beyond."""


def norms_of(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The norm of each gradient, where there is one; those of half precision in float32."""
    found: dict[int, Tensor] = {}
    dense = [g for g in gradients if g is not None and g.layout is torch.strided]
    for kind in (torch.float32, None):
        some = [g for g in dense if (g.dtype in _HALVES) == (kind is not None)]
        if some:
            found |= zip(map(id, some), _foreach_norm(some, 2, kind), strict=True)
    return [found.get(id(g)) for g in gradients]


def common_factor(
    gradients: Sequence[Tensor | None], then: Sequence[Tensor | None]
) -> float | None:
    """The factor from gradients to the norms of others: 1 if they are equal, None if there is none.

    Norms that part by their last bits alone have none: they are of other gradients. Products in
    half precision are rounded to 8 or 11 bits, and so is the norm of one that has few elements.

    Args:
        gradients: The gradients before.
        then: The norms after.
    """
    pairs = _pairs(gradients, then)
    norms = [float(norm) for norm in norms_of([g for g, _ in pairs]) if norm is not None]
    both = [(g, a, float(b)) for (g, b), a in zip(pairs, norms, strict=True)]
    if all(a == b for _, a, b in both):
        return 1.0
    total = math.hypot(*(a for _, a, _ in both))
    factor = math.hypot(*(b for _, _, b in both)) / total if total else math.nan
    is_common = all(abs(b - factor * a) <= _rounding(g, b) for g, a, b in both)
    least = max(1e-6 if g.dtype not in _HALVES else _eps(g) / 4 for g, _ in pairs)
    return factor if is_common and abs(factor - 1) > least else None


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
    pairs = _pairs(gradients, then)
    for factor in _candidates(pairs, about):
        if all(norms_of([g * factor]) == [norm] for g, norm in pairs):
            return factor
    return about


def _pairs(
    gradients: Sequence[Tensor | None], then: Sequence[Tensor | None]
) -> list[tuple[Tensor, Tensor]]:
    both = zip(gradients, then, strict=False)
    return [(g, n) for g, n in both if g is not None and n is not None]


def _rounding(gradient: Tensor, norm: float) -> float:
    """The most that rounding moves the norm of a product, or a thousandth of it."""
    if gradient.dtype not in _HALVES:
        return 1e-3 * norm
    # Below the least normal number the spacing is the same everywhere.
    least = torch.finfo(gradient.dtype).smallest_normal * _eps(gradient)
    return max(1e-3, _eps(gradient)) * norm + math.sqrt(gradient.numel()) * least


def _eps(gradient: Tensor) -> float:
    return torch.finfo(gradient.dtype).eps


def _candidates(pairs: Sequence[tuple[Tensor, Tensor]], about: float) -> Iterator[float]:
    """Factors to try, the likeliest first: of the gradients' own types, and of float32."""
    kinds = {g.dtype for g, _ in pairs}
    for kind in kinds & _HALVES:
        yield from _nearest_half(about, kind)
    if kinds & _HALVES:
        about = _searched(pairs, about)
        yield about
    yield from _nearest(about, np.float64 if torch.float64 in kinds else np.float32)


def _nearest_half(about: float, kind: torch.dtype) -> Iterator[float]:
    """Numbers of half precision, the nearest first: neighbours have neighbouring bits."""
    bits = torch.tensor([about], dtype=kind).view(torch.int16)
    for beside in sorted(range(-_REACH, _REACH + 1), key=abs):
        yield float((bits + beside).view(kind))


def _searched(pairs: Sequence[tuple[Tensor, Tensor]], about: float) -> float:
    """The factor at which the norm of all products is that of then, by halving an interval.

    Rounding never turns the order of two products, so that the norm grows with the factor.
    """
    then = math.hypot(*(float(norm) for _, norm in pairs))
    low, high = about * (1 - 2**-6), about * (1 + 2**-6)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        norms = norms_of([g * middle for g, _ in pairs])
        now = math.hypot(*(float(norm) for norm in norms if norm is not None))
        if now == then:
            return middle
        low, high = (middle, high) if now < then else (low, middle)
    return (low + high) / 2


def _nearest(about: float, kind: type[np.floating[Any]]) -> Iterator[float]:
    """Numbers of a type, the nearest first."""
    below = above = kind(about)
    yield float(below)
    for _ in range(_REACH):
        below, above = np.nextafter(below, kind(-np.inf)), np.nextafter(above, kind(np.inf))
        yield from (float(below), float(above))
