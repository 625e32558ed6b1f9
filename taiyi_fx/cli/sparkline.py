"""A curve as a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taiyi_fx.runs import Curve

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For terminals without the blocks."""


def sparkline(curve: Curve, levels: str, first: int, last: int, width: int) -> str:
    """Means over stretches of steps, from the curve's smallest to its largest.

    A stretch with a NaN or an Inf is ``!``, one without a value a space.

    Args:
        curve: The curve.
        levels: Characters from low to high.
        first: The first step shown.
        last: The last.
        width: The largest number of stretches.
    """
    import numpy as np

    width = min(width, last - first + 1)
    # In float64, as differences of steps may need more than 64 bits; it may round the last up.
    share = (curve.steps.astype(np.float64) - first) * width / (last - first + 1)
    at = np.minimum(share.astype(np.int64), width - 1)
    counts = np.bincount(at, minlength=width)
    is_finite = np.isfinite(curve.values)
    bad = np.bincount(at, ~is_finite, minlength=width)
    largest = np.abs(curve.values[is_finite]).max(initial=1e-300)
    # Sums of the largest numbers there are would not be finite.
    scaled = np.where(is_finite, curve.values / largest, 0.0)
    means = np.bincount(at, scaled, minlength=width) / np.maximum(counts, 1)
    shown = means[(counts > 0) & (bad == 0)]
    low, span = shown.min(initial=np.inf), np.ptp(shown) if len(shown) else 0.0
    heights = (means - low) / (span or 1.0) * (len(levels) - 1)
    return "".join(
        " " if not counts[i] else "!" if bad[i] else levels[round(heights[i])] for i in range(width)
    )
