"""Numbers for JSON, which has neither NaN nor Inf."""

from __future__ import annotations

import math


def json_number(value: float) -> float | str:
    """A number for JSON: ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` are texts."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
