"""Inputs of the model: data of a wild scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.lasting import STEPS

_LARGE, _SMALL = 100.0, 1e-3

WILD_INPUT = Kind(
    "wild_input",
    "warning",
    "Normalize the data: subtract the mean of each feature and divide by its deviation",
)


def wild_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers far from 1."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is None or evidence.modules[first.module] >= 3:
        return
    ends = (first.values[:STEPS], first.values[-STEPS:])
    sizes = [float(np.median(end)) for end in ends]
    value = next((size for size in sizes if not _SMALL <= size <= _LARGE), 1.0)
    if not np.isfinite(value) or _SMALL <= value <= _LARGE:
        return
    severity = "warning" if _SMALL / 10 < value < 10 * _LARGE else "alert"
    text = f"the root mean square of what {first.module!r} is given is {value:.3g}"
    yield WILD_INPUT.at(first, 0, text, "near 1", value=value, severity=severity)
