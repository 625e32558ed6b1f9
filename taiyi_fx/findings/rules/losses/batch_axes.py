"""Layers that take time for the batch: the gradient shows which axis the loss takes for which."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 4
"""Samples of which one alone says something."""
_SAME = 1e-9
"""The share of deviation between samples that are given the same gradient, but for rounding."""

BATCH_AXIS = Kind(
    "batch_axis",
    "warning",
    "Give it batch_first=True if its input is batch, time, features; without it the first axis is "
    "time, and it mixes the samples of a batch",
)


def batch_axes(evidence: Evidence) -> Iterator[Finding]:
    """Layers whose gradient is that of one sample alone, or the same for all samples."""
    told = set[str]()
    for one in evidence.of_quantity("OutputGradSampleRate"):
        counts = 1 / np.where(one.values > 0, one.values, np.inf)
        is_one = np.isclose(counts, np.rint(counts)) & (counts >= _FEW)
        if len(one.values) >= STEPS and is_one.all() and (counts == counts[0]).mean() > 0.5:
            told.add(one.module)
            why = f"one of {counts[0]:.0f} entries alone gets a gradient from the loss"
            yield _finding(one, why, "1", evidence)
    for one in evidence.of_quantity("OutputGradSampleSpread"):
        is_same = len(one.values) >= STEPS and bool((one.values < _SAME).all())
        if is_same and one.module not in told and not _is_of_one_sample(one.module, evidence):
            why = (
                "all entries get the same gradient from the loss, and along that of time each has "
                "another"
            )
            yield _finding(one, why, "another gradient for each sample", evidence)


def _is_of_one_sample(module: str, evidence: Evidence) -> bool:
    """True where the only sample is the mean of all; a layer without a batch has no such axis."""
    sizes = evidence.flow.shape_before(module).split("×")
    axis = evidence.model.batch_axes.get(module)
    return axis is not None and axis < len(sizes) and sizes[axis] == "1"


def of_sequences(evidence: Evidence) -> str:
    """The ending of a sentence: the first layer that takes its first axis for time, or nothing."""
    for module, axis in evidence.model.batch_axes.items():
        shape = evidence.flow.shape_before(module) if axis == 1 else ""
        if shape.count("×") > 1:
            return (
                f"; {module!r}, without batch_first, takes the first axis of what it is given "
                f"({shape}) for time"
            )
    return ""


def _finding(one: Watched, why: str, expected: str, evidence: Evidence) -> Finding:
    shape, axis = evidence.flow.shape_before(one.module), evidence.model.batch_axes.get(one.module)
    along = "along the axis that it takes for the batch,"
    text = f"{one.module!r} may mix up time and samples: {along} {why}"
    if axis is not None:
        text += f"; it takes axis {axis} for the batch"
        text += f", of an input of shape {shape}" if shape else ""
    return BATCH_AXIS.at(one, 0, text, expected)
