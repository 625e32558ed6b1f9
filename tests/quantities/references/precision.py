"""Numbers in narrow formats, by tables of all that each has, one element after the other."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np


def table(exponent_bits: int, fraction_bits: int, largest: float) -> list[float]:
    """All numbers of a format that are not negative, ascending."""
    bias = 2 ** (exponent_bits - 1) - 1
    found = {0.0}
    for exponent in range(2**exponent_bits):
        for fraction in range(2**fraction_bits):
            lead, power = (1, exponent - bias) if exponent else (0, 1 - bias)
            found.add((lead + fraction / 2**fraction_bits) * 2.0**power)
    return sorted(x for x in found if x <= largest)


E4M3, E5M2, E2M1 = table(4, 3, 448.0), table(5, 2, 57344.0), table(2, 1, 6.0)


def nearest(x: float, numbers: Sequence[float]) -> float:
    """The number of a table that is nearest; of two the one whose last bit is even."""
    if math.isnan(x):
        return x
    size = abs(x)
    i = bisect.bisect_left(numbers, size)
    if i == len(numbers):
        return math.copysign(numbers[-1], x)
    if i and numbers[i] != size:
        below, above = size - numbers[i - 1], numbers[i] - size
        i -= below < above or (below == above and i % 2 == 1)
    return math.copysign(numbers[i], x)


def of_tensor(x, numbers):
    """Scaled so that the largest is the format's largest."""
    scale = np.abs(x).max() / numbers[-1] or 1.0
    return np.array([nearest(v / scale, numbers) * scale for v in x.ravel()]).reshape(x.shape)


def in_blocks(x, numbers, exponent):
    """Blocks of 32 along the last axis, scaled by powers of two, as OCP's formats have it."""

    def block(part):
        largest = max(map(abs, part))
        scale = 2.0 ** max(math.floor(math.log2(largest)) - exponent, -127) if largest else 1.0
        return [nearest(v / scale, numbers) * scale for v in part]

    return _along_rows(x, 32, block)


def nvfp4(x):
    """Blocks of 16, scaled by a float8_e4m3fn, which one scale of the tensor brings into range."""
    of_all = np.abs(x).max() / 6 / 448 or 1.0

    def block(part):
        scale = nearest(max(map(abs, part)) / 6 / of_all, E4M3) * of_all
        return [nearest(v / scale, E2M1) * scale if scale else 0.0 for v in part]

    return _along_rows(x, 16, block)


def _along_rows(x, size, block):
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    made = [
        [v for at in range(0, len(row), size) for v in block([*row[at : at + size]])]
        for row in rows.tolist()
    ]
    return np.array(made).reshape(x.shape)


FORMATS = {
    "float8_e4m3fn": lambda x: of_tensor(x, E4M3),
    "float8_e5m2": lambda x: of_tensor(x, E5M2),
    "mxfp8_e4m3": lambda x: in_blocks(x, E4M3, 8),
    "mxfp8_e5m2": lambda x: in_blocks(x, E5M2, 15),
    "mxfp4": lambda x: in_blocks(x, E2M1, 2),
    "nvfp4": nvfp4,
    "float16": lambda x: np.clip(x, -65504, 65504).astype(np.float16).astype(np.float64),
}


def sqnr(x, name) -> float:
    """Decibels of a tensor beside what a format adds."""
    x = np.asarray(x, np.float64)
    noise = FORMATS[name](x) - x
    return 10 * math.log10((x**2).sum() / (noise**2).sum())
