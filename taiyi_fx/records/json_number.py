"""Numbers for JSON, which has neither NaN nor Inf."""

from __future__ import annotations

import math


def json_number(value: float) -> float | str:
    """A number for JSON; others than finite ones as ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
