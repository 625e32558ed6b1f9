"""Inputs of the model: data of a wild scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.lasting import STEPS
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Watched

_LARGE, _SMALL = 100.0, 1e-3
_TIMES = 30.0
_RARE = 0.2
"""The share of batches that are so large; of more, the median is none."""

WILD_INPUT = Kind(
    "wild_input",
    "warning",
    "Normalize the data: subtract the mean of each feature and divide by its deviation",
)
INPUT_SPIKE = Kind(
    "input_spike",
    "warning",
    "Look at the samples of this batch, and bound or leave out what is broken",
)


def wild_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers far from 1."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is None or evidence.modules[first.module] >= 3:
        return
    ends = (first.values[:STEPS], first.values[-STEPS:])
    sizes = [median(end) for end in ends]
    yield from _spike(first)
    value = next((size for size in sizes if not _SMALL <= size <= _LARGE), 1.0)
    if not np.isfinite(value) or _SMALL <= value <= _LARGE:
        return
    severity = "warning" if _SMALL / 10 < value < 10 * _LARGE else "alert"
    text = f"the root mean square of what {first.module!r} is given is {value:.3g}"
    yield WILD_INPUT.at(first, 0, text, "near 1", value=value, severity=severity)


def _spike(one: Watched) -> Iterator[Finding]:
    """A batch that is far larger than the others."""
    usual = median(one.values)
    i = int(np.argmax(one.values))
    value = float(one.values[i])
    if usual > 0 and value >= _TIMES * usual and (one.values >= _TIMES * usual).mean() < _RARE:
        text = f"step {one.steps[i]}: what {one.module!r} is given is {value:.3g} in size, once"
        yield INPUT_SPIKE.at(one, i, text, f"near {usual:.3g}")
