"""Sums of powers of deviations from the mean, in few passes where they lose nothing by it.

A variance is the mean square less the square of the mean, which is one bit off at most where the
mean is no larger than the spread: most activations and gradients. Others are left to who asks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.reductions.sums import pieces, square_sums

_TINY, _HUGE = 1e-30, 1e30
"""Between them no fourth power that matters leaves float32's range."""


def central_squares(x: Tensor, axes: tuple[int, ...], n: int) -> tuple[Tensor, Tensor] | None:
    """The means over some axes of n elements each, and the sums of squared deviations, in float64.

    Of a tensor that `is_fast`. None where a mean is larger than the spread, or not finite.
    """
    mean = x.sum(axes).double() / n
    of_mean = mean.square() * n
    squares = square_sums(x, axes) - of_mean
    return (mean, squares) if (of_mean <= squares).all() else None


def central_powers(x: Tensor) -> tuple[float, float, float, float] | None:
    """The mean, and the sums of squares, cubes and fourth powers of the deviations from it.

    Of a tensor that `is_fast`. None where no digits of them can be relied on.
    """
    about, n = 0.0, x.numel()
    for _ in range(2):
        s1, s2, s3, s4 = _power_sums(x, about)
        if not (_TINY * n < s4 < _HUGE):
            return None
        offset = s1 / n
        m2 = s2 - n * offset**2
        if n * offset**2 <= m2:
            m3 = s3 - 3 * offset * s2 + 2 * n * offset**3
            m4 = s4 - 4 * offset * s3 + 6 * offset**2 * s2 - 3 * n * offset**4
            return about + offset, m2, m3, m4
        about = torch.tensor(about + offset, dtype=x.dtype).item()
    return None


def _power_sums(x: Tensor, about: float) -> list[float]:
    """The sums of the first four powers of ``x - about``; in float32 within a piece only."""
    totals = [0.0] * 4
    for piece in pieces(x):
        u = piece - about if about else piece
        square = u * u
        sums = [u.sum(), square.sum(), (square * u).sum(), square.square_().sum()]
        totals = [total + found.item() for total, found in zip(totals, sums, strict=True)]
    return totals
