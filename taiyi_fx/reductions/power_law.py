"""The exponent of the power law that fits the tail of some numbers best."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_TOGETHER = 2**20
"""Differences of distributions that are held at a time."""


class PowerLaw(NamedTuple):
    """A density proportional to x^(-alpha) from the smallest number of the tail on.

    Attributes:
        alpha: The exponent.
        distance: The Kolmogorov-Smirnov distance of the tail from it.
        smallest: Where the tail begins.
    """

    alpha: Tensor
    distance: Tensor
    smallest: Tensor


def power_law(values: Tensor) -> PowerLaw:
    """The power law whose tail is nearest to it, of all tails but that of one number.

    In float64. The exponent of each tail is the most likely one, 1 + n / sum log(x / smallest).
    Source: Clauset, Shalizi and Newman 2009, arXiv 0706.1062.

    Args:
        values: Positive numbers, at least two, as a vector.
    """
    logs = values.double().sort().values.log()
    n = len(logs)
    sizes = torch.arange(n, 1, -1, dtype=logs.dtype, device=logs.device)
    # From the end on, of differences from the largest: their sums have no large numbers to cancel.
    below = logs[-1] - logs
    excess = sizes * below[:-1] - below.flip(0).cumsum(0).flip(0)[:-1]
    alphas = 1 + sizes / excess
    distances = torch.cat(
        [_distances(logs, alphas, first) for first in _starts(n, max(1, _TOGETHER // n))]
    )
    best = distances.argmin()
    return PowerLaw(alphas[best], distances[best], logs[best].exp())


def _starts(n: int, rows: int) -> list[range]:
    return [range(at, min(at + rows, n - 1)) for at in range(0, n - 1, rows)]


def _distances(logs: Tensor, alphas: Tensor, tails: range) -> Tensor:
    """The distances of some tails from their power laws; 1 where all numbers are equal."""
    first = torch.arange(tails.start, tails.stop, device=logs.device).unsqueeze(1)
    places = torch.arange(tails.start, len(logs), device=logs.device)
    within = places >= first
    slopes = 1 - alphas[tails.start : tails.stop].unsqueeze(1)
    expected = 1 - torch.exp(slopes * (logs[tails.start :] - logs[first]))
    seen = (places - first) / (len(logs) - first)
    found = (expected - seen).abs().masked_fill(~within, 0).amax(1)
    return torch.where(slopes.squeeze(1).isfinite(), found, 1.0)
