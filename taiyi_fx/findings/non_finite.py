"""The first NaN or Inf of a training: the module where it arose, not those that it reached."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import numpy as np

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.finding import Finding

_ADVICE = {
    "parameter": "The parameter itself is not finite: look at the step before (a gradient that was "
    "not finite, a step that was too large), and clip or skip such gradients",
    "forward": "Look at what this module computes: a division by zero, the logarithm or root of a "
    "number below zero, or an overflow in half precision",
    "backward": "Forwards were finite: look for a root, a norm or a division at zero, whose "
    "derivative is infinite, between this module and the loss",
    "": "All recorded values of modules were finite: the loss function itself, or its targets, "
    "make it; ask for NonFinite of all modules to see more",
}
_WHERE = {
    "parameter": "the parameters of",
    "forward": "what passes",
    "backward": "the gradients of",
    "": "the logged numbers of",
}
# At one step a parameter comes before what is computed with it, and that before gradients of it.
_ORDER = ("parameter", "forward", "", "backward")


def skipped_steps(evidence: Evidence) -> list[int]:
    """The steps where gradients alone are not finite, and that left no trace.

    A scaler of losses skips such steps, in the beginning most of them. Without one the parameters
    would not be finite at the next.
    """
    gradients, others = set[int](), set[int]()
    every = set[int]()
    for one in evidence.series:
        bad = one.steps[one.is_bad].tolist()
        (gradients if one.direction == "backward" else others).update(bad)
        if one.direction in ("parameter", "forward"):
            every.update(one.steps.tolist())
    known = sorted(every)
    return sorted(
        step
        for step in gradients - others
        if (i := bisect.bisect_right(known, step)) < len(known) and known[i] not in others
    )


def overflow(evidence: Evidence, skipped: Sequence[int]) -> Iterator[Finding]:
    """A note on steps that were skipped."""
    for step in skipped[:1]:
        bad = [s for s in evidence.series if s.is_bad[s.steps == step].any()]
        site = max(bad, key=lambda s: evidence.modules[s.module])
        yield Finding(
            kind="overflow",
            severity="note",
            module=site.module,
            quantity=site.quantity,
            step=step,
            value=_value(site, step),
            expected="finite",
            text=f"step {step}: gradients alone are not finite, as at {len(skipped)} steps in all, "
            "and parameters stay finite",
            advice="That is how a scaler of losses finds its scale; if it goes on, gradients are "
            "too large for the format",
        )


def first_step(evidence: Evidence) -> int | None:
    """The first step with a NaN or Inf; None if there is none."""
    steps = [int(s.steps[s.is_bad][0]) for s in evidence.series if s.is_bad.any()]
    return min(steps, default=None)


def non_finite(evidence: Evidence) -> Iterator[Finding]:
    """The site where NaN or Inf arose first."""
    step = first_step(evidence)
    if step is None:
        return
    bad = [s for s in evidence.series if s.is_bad[s.steps == step].any()]
    direction = next(d for d in _ORDER if any(s.direction == d for s in bad))
    place = evidence.modules
    of_kind = [s for s in bad if s.direction == direction]
    # Backward goes the other way.
    sign = -1 if direction == "backward" else 1
    site = min(of_kind, key=lambda s: sign * place[s.module])
    yield Finding(
        kind="non_finite",
        severity="alert",
        module=site.module,
        quantity=site.quantity,
        step=step,
        value=_value(site, step),
        expected="finite",
        text=f"step {step}: the first NaN or Inf is in {_WHERE[direction]} {_named(site.module)}",
        advice=_ADVICE[direction],
    )


def _value(site: Watched, step: int) -> float:
    return float(site.values[np.flatnonzero(site.steps == step)[-1]])


def _named(module: str) -> str:
    return repr(module) if module else "the model itself"
