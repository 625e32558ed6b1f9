"""Gradients that have come to nothing, as where all is learnt that can be."""

from __future__ import annotations

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median

_NOTHING = 1e-6
"""Of the first gradients: float32 rounds away sums whose terms are so much larger."""
_FEW = 8
"""Numbers from which on a gradient has a course."""
_FIRST, _LAST = 3, 4
"""Numbers at the beginning and at the end."""


def share_left(evidence: Evidence) -> float | None:
    """The largest share that is left of a weight's first gradients, if next to nothing is.

    None where that of any weight is more, or is not known.
    """
    shares = [0.0]
    for one in evidence.parameters.weight_gradients.values():
        first = median(one.values[:_FIRST])
        if len(one.values) < _FEW or not np.isfinite(first) or first <= 0:
            return None
        shares.append(median(one.values[-_LAST:]) / first)
    is_nothing = len(shares) > 1 and 0 < max(shares) <= _NOTHING
    return max(shares) if is_nothing else None
