"""Inputs of the model: data of a wild scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding

_LARGE, _SMALL = 100.0, 1e-3


def wild_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers far from 1."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is None or first.module not in list(evidence.modules)[:3]:
        return
    value = float(np.median(first.values))
    if not np.isfinite(value) or _SMALL <= value <= _LARGE:
        return
    yield Finding(
        kind="wild_input",
        severity="warning",
        module=first.module,
        quantity=first.quantity,
        step=int(first.steps[0]),
        value=value,
        expected="near 1",
        text=f"the root mean square of what {first.module!r} is given is {value:.3g}",
        advice="Normalize the data: subtract the mean of each feature and divide by its deviation",
    )
