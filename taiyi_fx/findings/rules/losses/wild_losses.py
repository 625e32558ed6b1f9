"""Losses that begin at a wild size, by their targets or by the outputs of the model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched
from taiyi_fx.findings.finding import Finding, Severity
from taiyi_fx.findings.kind import Kind

_LOSS = 12.0
"""More than the cross entropy of a guess among 160,000 classes."""
_FEW, _GUESSES = 2, 2.5
"""Classes of which more say what a guess costs, and how many times that is far above it."""
_SIZE = 5.0
"""Of outputs; beside those, an output layer begins below 1."""
_TIMES = 3.0
"""Over all that is computed before it: it is this module that makes them large."""
_FALLS, _RISES = 0.5, 10.0
"""The share of its beginning below which a loss falls, and times it to which it goes at once."""

WILD_START = Kind(
    "wild_start",
    "warning",
    "Initialise the output layer with smaller weights, also where they are those of an embedding: "
    "its first outputs should be near 0",
)


def wild_starts(evidence: Evidence) -> Iterator[Finding]:
    """A last module whose first outputs it makes large itself, where the loss falls to half."""
    sizes = [*evidence.of_quantity("OutputRMS")]
    if not evidence.is_from_the_start or len(sizes) < 2:
        return
    last, before = sizes[-1], max(float(s.values[0]) for s in sizes[:-1])
    if last.name in evidence.model.frozen:
        return  # it was trained before, as what adapters are put into
    first = float(last.values[0])
    if first < max(_SIZE, _TIMES * before):
        return
    for loss in evidence.logged.losses:
        classes = evidence.logged.of_loss(loss).classes
        guess = _GUESSES * np.log(classes) if classes > _FEW else _LOSS
        if begins_wild(loss, min(guess, _LOSS)):
            start = float(loss.values[0])
            text = (
                f"the output of {last.module!r} begins at {first:.3g} in size, and "
                f"{loss.quantity!r} at {start:.3g}, where a guess among "
            )
            text += (
                f"{classes} classes costs {np.log(classes):.3g}"
                if classes > _FEW
                else "all words of a language costs 12"
            )
            yield WILD_START.at(last, 0, text, "below 1")
            return


def goes_wild(loss: Watched) -> bool:
    """True for a loss that begins above that of any guess, and goes higher at once."""
    start = float(loss.values[0])
    return start >= _LOSS and len(loss.values) > 1 and float(loss.values[1]) > _RISES * start


def begins_wild(loss: Watched, least: float = _LOSS) -> bool:
    """True for a loss that begins above that of any guess, and falls to half."""
    start = float(loss.values[0])
    return start >= least and len(loss.values) >= STEPS and median(loss.last_half) < _FALLS * start


_LARGE = 1e4
"""Sums over the elements of a batch are smaller, mostly."""
_USUAL = 10.0
"""The size of outputs that make no such loss: it is of what they are compared with."""
_MANY = 50
"""Numbers after which a loss that steps of a usual size lower has come down to half."""
_FIRST, _STEP = 3, 0.5
"""Steps of the beginning, and the size of one beside the weight by which it is another."""

WILD_LOSS = Kind(
    "wild_loss",
    "note",  # it is no fault where steps are usual, as those of Adam are
    "Look at the scale of the targets, and whether the loss is a mean or a sum: normalize targets "
    "as inputs are",
)


def wild_losses(evidence: Evidence) -> Iterator[Finding]:
    """Losses that are far from 1 at the first step, though all outputs are of a usual size."""
    for loss in evidence.logged.losses if evidence.is_from_the_start else ():
        first = float(loss.values[0])
        largest = max(
            (float(s.values[0]) for s in evidence.of_quantity("OutputRMS")), default=np.inf
        )
        if np.isfinite(first) and abs(first) >= _LARGE and largest <= _USUAL:
            text = (
                f"{loss.quantity!r} begins at {first:.3g}, though no module returns more than "
                f"{largest:.3g} in size"
            )
            severity = _severity(loss.values, evidence)
            yield WILD_LOSS.at(loss, 0, text, "near 1", module="", severity=severity)


def _severity(values: Values, evidence: Evidence) -> Severity:
    if _are_steps_large(evidence):
        return "alert"
    is_left = len(values) >= _MANY and median(values[-_MANY // 2 :]) > _FALLS * values[0]
    return "warning" if is_left else "note"


def _are_steps_large(evidence: Evidence) -> bool:
    """True if the first steps are as large as the weights they change."""
    every = evidence.steps_of_weights
    return any(
        (s.values[:_FIRST] >= _STEP).any()
        for s in every
        if not evidence.parameters.began_at_zero(s.module)
    )
