"""Learning rates that fell to nothing long before the training ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NOTHING = 1e-3
"""The share of the largest rate at which hardly anything is learnt."""
_SHARE = 0.4
"""The share of a training that goes on so: a schedule that ends with it takes less."""
_FEW = 8
"""So many numbers of a rate show a schedule."""

ENDED_RATE = Kind(
    "ended_rate",
    "warning",
    "Look at how often the scheduler is stepped, for each batch or each epoch, and for how many "
    "steps it was made",
)


def ended_rates(evidence: Evidence) -> Iterator[Finding]:
    """Learning rates that are a thousandth of the largest and less for two fifths of a training."""
    rates = [s for s in evidence.series if s.quantity.split(".")[0] == "LearningRate"]
    for one in rates:
        largest = one.values.max()
        still_high = np.flatnonzero(one.values > _NOTHING * largest)
        first = int(still_high[-1]) + 1 if largest > 0 else 0
        if not 0 < first <= len(one.values) - _FEW:
            continue
        begin, since, end = one.steps[0], one.steps[first], one.steps[-1]
        if end - since >= _SHARE * (end - begin):
            last = one.values[-1]
            text = (
                f"{one.quantity} falls from {largest:.3g} to a thousandth of it by step {since}, "
                f"and is {last:.3g} at step {end}: since then hardly anything is learnt"
            )
            yield ENDED_RATE.at(one, first, text, f"above {_NOTHING * largest:.3g}", value=last)
            return
