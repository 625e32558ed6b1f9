"""Outputs of modules: exactly zero, or of a wild size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.lasting import lasting, since
from taiyi_fx.findings.robust import median

_LARGE = 100.0

ZERO_OUTPUT = Kind(
    "zero_output",
    "alert",
    "Nothing passes it: look at its bias, its threshold, its dropout and the scale of what it is "
    "given",
)
WILD_OUTPUT = Kind(
    "wild_output",
    "warning",
    "Look at how it is initialised, and at the scale of what it is given",
)


def zero_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module whose output is exactly zero; those behind it may follow from it."""
    for one in evidence.of_quantity("OutputRMS"):
        if lasting(one.values == 0) and not _begins_at_zero(one.module, evidence):
            i = since(one.values == 0)
            text = f"step {one.steps[i]}: the output of {one.module!r} is exactly 0 from here on"
            yield ZERO_OUTPUT.at(one, i, text, "above 0")


def wild_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module, in the order of the model, whose output is far from 1."""
    for one in evidence.of_quantity("OutputRMS"):
        value = median(one.values)
        if np.isfinite(value) and value >= _LARGE:
            text = (
                f"the root mean square of the output of {one.module!r} is {value:.3g}, the first "
                "of such a size in the model"
            )
            yield WILD_OUTPUT.at(one, 0, text, "near 1", value=value)


def _begins_at_zero(module: str, evidence: Evidence) -> bool:
    """True for a module whose weights are zero, as of a branch that is to begin as nothing.

    Without a gradient it stays nothing.
    """
    own = evidence.weights.get(module)
    is_zero = own is not None and float(own.values[-1]) == 0
    return is_zero and module in evidence.weight_gradients
