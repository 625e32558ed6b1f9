"""A loss that rises at one step to what an untrained model costs, once or at each Nth step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.movers import moved_first
from taiyi_fx.findings.facts.robust import Numbers, median, spread
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
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

_NEAR, _TIMES, _APART = 3, 4, 8
"""Numbers on either side of a relapse; so many relapses, and so many numbers apart at least."""
_LOST = 0.5
"""The share of what was learnt before it that a relapse loses."""
_RAISED, _TINY = 1.5, 1e-30
"""Times the lowest so far: a learning rate that a schedule raises again."""
_AT_TIMES = (
    "Look at what happens every {} steps: weights that are loaded or written into, as by an "
    "evaluation that leaves an average's in the model; a model or an optimizer that is made anew; "
    "an epoch whose samples come in an order"
)
RELAPSES = Kind("relapses", "warning", _AT_TIMES.format("so many"))


def relapses(evidence: Evidence) -> Iterator[Finding]:
    """Losses of classes that lose much of what was learnt at each Nth step.

    Not where a schedule raises the learning rate again.
    """
    for loss in evidence.logged.losses if evidence.is_from_the_start else ():
        guess, classes = guess_of(loss, evidence)
        is_odd = classes > 1 and not (may_rise(loss, evidence) or is_game(evidence))
        if not is_odd or not np.isfinite(loss.values).all():
            continue
        untrained = float(np.fmin(median(loss.values[:_AFTER]), guess))
        at = _relapses_of(loss.values, untrained)
        every = _period_of(loss.steps[at])
        if every and not _raises_rates(int(loss.steps[at[0]]), evidence):
            i = int(at[-1])
            before, after = (one[i - _NEAR] for one in _around(loss.values))
            text = (
                f"{loss.quantity!r} rises at each {every}th step from {loss.steps[at[0]]} on, and "
                f"loses much of what was learnt until then: at step {loss.steps[i]} from "
                f"{before:.3g} to {after:.3g}, where an untrained model costs {untrained:.3g}"
            )
            others = {"module": "", "advice": _AT_TIMES.format(every)}
            yield RELAPSES.at(loss, int(at[0]), text, f"near {before:.3g}", **others)


def _around(values: Numbers) -> tuple[Numbers, Numbers]:
    """The medians of the numbers before each place with enough of them, and of those from it on."""
    medians = np.median(sliding_window_view(values, _NEAR), axis=1)
    return medians[:-_NEAR], medians[_NEAR:]


def _relapses_of(values: Numbers, untrained: float) -> NDArray[np.intp]:
    """The places at which a loss loses much of what was learnt, each the steepest of its rise."""
    if len(values) < 2 * _NEAR:
        return np.array([], dtype=np.intp)
    before, after = _around(values)
    least = np.maximum(_LOST * (untrained - before), _SIGMAS * spread(np.diff(values)))
    found = list[int]()
    for i in np.flatnonzero((before < _UNTRAINED * untrained) & (after - before > least)) + _NEAR:
        if not found or i - found[-1] >= _APART:
            found.append(int(i))
        elif values[i] - values[i - 1] > values[found[-1]] - values[found[-1] - 1]:
            found[-1] = int(i)
    return np.array(found, dtype=np.intp)


def _period_of(steps: NDArray[np.int64]) -> int:
    """The steps from each to the next, or a multiple of these, if they are as many; else 0."""
    apart = np.diff(steps)
    every = int(apart.min()) if len(steps) >= _TIMES else 0
    if every < _APART:
        return 0
    turns = np.rint(apart / every)
    is_regular = bool((np.abs(apart - turns * every) <= 1).all())
    return every if is_regular and turns.sum() <= 2 * len(apart) else 0


def _raises_rates(step: int, evidence: Evidence) -> bool:
    """True if a learning rate is raised again behind a step, as by a schedule that begins anew."""
    for rate in evidence.rates:
        known = rate.values[rate.steps >= step]
        lowest = np.minimum.accumulate(known)
        if len(known) and (known >= _RAISED * np.abs(lowest) + _TINY).any():
            return True
    return False


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
    after = sliding_window_view(values, _AFTER)[_BEFORE:]
    before = sliding_window_view(values, _BEFORE)[: len(after)]
    highest, lowest = before.max(axis=1), after.min(axis=1)
    is_above = (highest < level) & (level <= np.median(after, axis=1))
    for i in np.flatnonzero(is_above):
        if lowest[i] > highest[i] + _SIGMAS * spread(before[i]):
            return int(i) + _BEFORE
    return None
