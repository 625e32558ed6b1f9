"""An optimizer that counts fewer steps than its parameters have taken: its state begins anew."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 16
"""Steps below which nothing is said."""
_PAIRS = 8
"""Numbers of steps that follow each other, which tell steps of the optimizer from micro-batches."""
_SHARE = 0.5
"""Of the steps that were taken: it has forgotten the others."""
_MOST = 0.5
"""The share of the weights of which it is the optimizer's."""

LOST_STATE = Kind(
    "lost_state",
    "warning",
    "Make the optimizer once, before the loop, and keep it: where its state is cleared, or another "
    "takes its place, it begins each time with first moments of one batch, and without its warm-up",
)


def lost_states(evidence: Evidence) -> Iterator[Finding]:
    """Weights that have moved at each step, by more steps than their optimizer counts."""
    known = {s.module: s for s in evidence.of_quantity("UpdateRatio.weight")}
    moved = [known[m] for m in evidence.step_counts if m in known and _moves(known[m])]
    forgotten = [s for s in moved if evidence.step_counts[s.module] < _SHARE * _steps(s)]
    if not forgotten:
        return
    first = forgotten[0]
    count, is_most = evidence.step_counts[first.module], len(forgotten) > _MOST * len(moved)
    subject = "the weights" if is_most else f"the weight of {first.module!r}"
    text = (
        f"the optimizer counts {count} step{'s' * (count != 1)} of {subject}, which changed at "
        f"each of {_steps(first)}: its state was lost, or another optimizer steps in its place"
    )
    found = {"module": "" if is_most else first.module, "value": float(count)}
    yield LOST_STATE.at(first, 0, text, f"{_steps(first)} steps", **found)


def _steps(s: Watched) -> int:
    return int(s.steps[-1] - s.steps[0]) + 1


def _moves(s: Watched) -> bool:
    """True if it changes from each step to the next: of micro-batches, not each makes a step."""
    pairs = int((np.diff(s.steps) == 1).sum())
    return _steps(s) >= _FEW and pairs >= _PAIRS and bool((s.values > 0).all())
