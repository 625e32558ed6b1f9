"""A model whose first outputs are so large that its loss is far above that of a guess."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
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
    first = float(last.values[0])
    if first < max(_SIZE, _TIMES * before):
        return
    for loss in evidence.losses:
        classes = evidence.classes.get(loss.quantity, 0)
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
