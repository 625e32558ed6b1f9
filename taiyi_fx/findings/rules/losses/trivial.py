"""A loss of classes that falls to nothing at once: its targets tell themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import guess_of

_NOTHING = 1e-3
"""Of what a guess costs: nobody errs any more."""
_SOON, _SHARE = 50, 0.25
"""Steps, and the share of all, within which no task is learnt so well."""
_MANY = 40
_UNTRAINED = 0.5
"""Of what a guess costs: what begins below was trained before."""

TRIVIAL_LOSS = Kind(
    "trivial_loss",
    "warning",
    "Look at the labels, which may all be one class, and at what the model is given, which may "
    "hold them; where one batch is learnt by heart on purpose, nothing is wrong",
)


def trivial_losses(evidence: Evidence) -> Iterator[Finding]:
    """Cross entropies that are a thousandth of a guess's within few steps, and stay so."""
    if not evidence.is_from_the_start:
        return
    for loss in evidence.losses:
        guess, classes = guess_of(loss, evidence)
        above = np.flatnonzero(~(loss.values < _NOTHING * guess))
        if classes < 2 or len(loss.values) < _MANY or loss.values[0] < _UNTRAINED * guess:
            continue
        i = int(above[-1]) + 1
        first, last = int(loss.steps[min(i, len(loss.steps) - 1)]), int(loss.steps[-1])
        if i < len(loss.values) and first <= min(_SOON, _SHARE * last):
            text = (
                f"{loss.quantity!r} falls from {loss.values[0]:.3g} to {loss.values[i]:.1e} in "
                f"{first} steps, and stays there: nothing is left to learn"
            )
            yield TRIVIAL_LOSS.at(loss, i, text, "a task that takes longer", module="")
