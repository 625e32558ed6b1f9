"""Steps that a scaler of losses skips: gradients that are not finite and leave no trace."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_MANY = 24
"""More steps in a row than a scaler needs to come down from any scale that float32 holds."""

OVERFLOW = Kind(
    "overflow",
    "note",
    "That is how a scaler of losses finds its scale; if it goes on, gradients are too large for "
    "the format",
)
ONLY_SKIPS = Kind(
    "only_skips",
    "alert",
    "No scale is small enough, so the gradients themselves are not finite: look for a NaN in the "
    "loss or in the data, and at what overflows in half precision, or train in bfloat16",
)


def skipped_steps(evidence: Evidence) -> list[int]:
    """The steps where gradients alone are not finite, and that left no trace.

    A scaler of losses skips such steps, in the beginning most of them. Without one the parameters
    would not be finite at the next. Of the last step nobody knows yet.
    """
    gradients, others = set[int](), set[int]()
    for one, bad in evidence.bad:
        found = gradients if one.direction == "backward" else others
        found.update(one.steps[bad].tolist())
    known = _known_steps(evidence) if gradients - others else []
    if not known:
        return []
    return sorted(
        step
        for step in gradients - others
        if (i := bisect.bisect_right(known, step)) == len(known) or known[i] not in others
    )


def overflow(evidence: Evidence, skipped: Sequence[int]) -> Iterator[Finding]:
    """A note on steps that were skipped; an alert where all of the last ones were."""
    if not skipped:
        return
    step = skipped[0]
    bad = [s for s, mask in evidence.bad if step in s.steps[mask]]
    site = max(bad, key=lambda s: evidence.modules[s.module])
    i = int(np.flatnonzero(site.steps == step)[-1])
    last = _known_steps(evidence)[-_MANY:]
    if len(last) == _MANY and set(last) <= set(skipped):
        text = f"gradients are NaN or Inf at each of the last {_MANY} steps: all are skipped"
        yield ONLY_SKIPS.at(site, i, text, "a step that is taken", module="")
        return
    more = f", as at {len(skipped)} steps in all" if len(skipped) > 1 else ""
    text = f"step {step}: gradients of {site.module!r} are NaN or Inf{more}; parameters stay finite"
    yield OVERFLOW.at(site, i, text, "finite")


def _known_steps(evidence: Evidence) -> list[int]:
    every = [s.steps for s in evidence.series if s.direction in ("parameter", "forward")]
    return np.unique(np.concatenate(every)).tolist() if every else []
