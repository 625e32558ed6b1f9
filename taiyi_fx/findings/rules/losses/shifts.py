"""A loss that rises at one step to what an untrained model costs, and stays for a while."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.movers import moved_first
from taiyi_fx.findings.facts.robust import Numbers, median, spread
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.losses.loss import SPIKE, guess_of, is_game, may_rise

_BEFORE, _AFTER = 12, 3
"""Numbers of which all before are far below all after it."""
_SIGMAS = 4.0
"""Robust deviations of those before, between the largest of them and all after it."""
_UNTRAINED = 0.8
"""Of what an untrained model costs: it is below before, and above after."""
_FROM_THEN = (
    "Look for what changes at this step: other data, or the same in another order or scale; "
    "weights that are loaded or written into; another mode, loss or schedule"
)


def shifts(evidence: Evidence) -> Iterator[Finding]:
    """Losses by which much of what was learnt is lost at one step.

    A loss that still falls varies so much that its level says more than robust deviations.
    """
    if is_game(evidence) or not evidence.is_from_the_start:
        return
    for loss in evidence.logged.losses:
        if len(loss.values) < _BEFORE + _AFTER or (loss.values <= 0).any():
            continue
        guess, _ = guess_of(loss, evidence)
        untrained = float(np.fmin(median(loss.values[:_AFTER]), guess))
        i = _first_shift(loss.values, _UNTRAINED * untrained)
        if i is not None:
            step, before = int(loss.steps[i]), median(loss.values[i - _BEFORE : i])
            text = (
                f"step {step}: {loss.quantity!r} rises from {before:.3g} to {loss.values[i]:.3g} "
                f"at once, and an untrained model costs {untrained:.3g}"
            )
            text += moved_first(evidence, step)
            # Targets that another model makes, as in a game, may change on purpose.
            is_odd = guess > 0 and not may_rise(loss, evidence)
            severity = "warning" if is_odd else "note"
            others = {"module": "", "severity": severity, "advice": _FROM_THEN}
            yield SPIKE.at(loss, i, text, f"near {before:.3g}", **others)


def _first_shift(values: Numbers, level: float) -> int | None:
    """The first number that passes a level from far below, with those after it."""
    for i in range(_BEFORE, len(values) - _AFTER + 1):
        before, after = values[i - _BEFORE : i], values[i : i + _AFTER]
        is_above = before.max() < level <= median(after)
        if is_above and after.min() > before.max() + _SIGMAS * spread(before):
            return i
    return None
