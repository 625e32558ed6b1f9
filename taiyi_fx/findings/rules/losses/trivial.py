"""A loss of classes that falls to nothing at once: its targets tell themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import guess_of

_NOTHING = 1e-3
"""Of what a guess costs: nobody errs any more."""
_SOON, _SHARE = 25, 0.25
"""Steps, and the share of all, within which no task is learnt so well."""
_MANY = 40
_UNTRAINED = 0.5
"""Of what a guess costs: what begins below was trained before."""

_FOOLED = 0.03
"""Of what a guess costs: the judge takes nearly all for what it is asked for."""
_JUDGED = (
    "Look at the labels of made samples: in this loss they have to be those of real ones, and in "
    "the judge's own loss those of made ones; where both losses ask for the same, they fall "
    "together, and the data have no part in it. And look at whether the judge is trained"
)
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
    for loss in evidence.logged.losses:
        guess, classes = guess_of(loss, evidence)
        graph = evidence.logged.of_loss(loss).graph
        if classes and graph is not None and graph.is_judged:
            yield from _of_judged(loss, guess)
            continue
        above = np.flatnonzero(~(np.abs(loss.values) < _NOTHING * guess))
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


def _of_judged(loss: Watched, guess: float) -> Iterator[Finding]:
    """The loss of what another model judges, which is next to nothing in all its last half."""
    half = loss.values[len(loss.values) // 2 :]
    if len(half) >= _MANY and (half >= 0).all() and half.max() < _FOOLED * guess:
        text = (
            f"{loss.quantity!r}, which another model judges, falls from {loss.values[0]:.3g} to "
            f"{half[-1]:.1e}, and stays below {half.max():.1e} from step "
            f"{loss.steps[len(loss.values) // 2]} on: nothing is left to play for"
        )
        others = {"module": "", "value": float(half[-1]), "advice": _JUDGED}
        yield TRIVIAL_LOSS.at(loss, len(loss.values) // 2, text, f"near {guess:.2g}", **others)
