"""Values that became too large for their format, as the weights that make them had grown."""

from __future__ import annotations

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median

_GROWN = 3.0
"""How many times as large as at first half of all weights are, where they make values overflow."""


def growth_of_weights(evidence: Evidence, step: int) -> float:
    """How many times as large half of all weights are before a step as at first; 1 if not known."""
    sizes = (s.before(step + 1).values for s in evidence.parameters.weights.values())
    ratios = [own[-1] / own[0] for own in map(_finite, sizes) if len(own) and own[0] > 0]
    return median(np.array(ratios)) if ratios else 1.0


def overflows(evidence: Evidence, module: str, step: int) -> bool:
    """True if a module's first NaN or Inf at a step is what weights that have grown make.

    A module with a weight multiplies and adds: of finite numbers that makes nothing else.
    """
    return module in evidence.parameters.weights and growth_of_weights(evidence, step) >= _GROWN


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
