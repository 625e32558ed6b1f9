"""Shapes as an outline shows them, such as ``"8×64"``."""

from __future__ import annotations

import math


def rows_of(shape: str) -> int:
    """The number of rows in a shape: of all its axes but the last; 0 if it is not known."""
    sizes = shape.split("×")[:-1]
    return math.prod(map(int, sizes)) if sizes and all(n.isdecimal() for n in sizes) else 0
