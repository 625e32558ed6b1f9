"""Outputs of modules: exactly zero, or of a wild size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.finding import Finding

_STEPS = 8
_LARGE = 100.0


def zero_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module whose output is exactly zero; those behind it may follow from it."""
    for one in evidence.of_quantity("OutputRMS"):
        last = one.values[-max(_STEPS, len(one.values) // 2) :]
        if len(one.values) >= _STEPS and (last == 0).all() and not _begins_at_zero(one, evidence):
            others = np.flatnonzero(one.values != 0)
            step = int(one.steps[others[-1] + 1 if len(others) else 0])
            yield Finding(
                kind="zero_output",
                severity="alert",
                module=one.module,
                quantity=one.quantity,
                step=step,
                value=0.0,
                expected="above 0",
                text=f"step {step}: the output of {one.module!r} is exactly 0 from here on",
                advice="Nothing passes it: look at its bias, its threshold, its dropout and the "
                "scale of what it is given",
            )


def wild_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module, in the order of the model, whose output is far from 1."""
    for one in evidence.of_quantity("OutputRMS"):
        value = float(np.median(one.values))
        if np.isfinite(value) and value >= _LARGE:
            yield Finding(
                kind="wild_output",
                severity="warning",
                module=one.module,
                quantity=one.quantity,
                step=int(one.steps[0]),
                value=value,
                expected="near 1",
                text=f"the root mean square of the output of {one.module!r} is {value:.3g}, the "
                "first of such a size in the model",
                advice="Look at how it is initialised, and at the scale of what it is given",
            )


def _begins_at_zero(one: Watched, evidence: Evidence) -> bool:
    """True for a module whose weights are zero, as of a branch that is to begin as nothing."""
    own = [s for s in evidence.weights if s.module == one.module]
    return any(float(s.values[-1]) == 0 for s in own)
