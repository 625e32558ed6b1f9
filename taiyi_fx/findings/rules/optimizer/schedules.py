"""Schedules of learning rates that end long before the training, begin anew, or jump."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NOTHING = 1e-3
"""The share of the largest rate at which hardly anything is learnt."""
_SHARE = 0.4
"""The share of a training that goes on so: a schedule that ends with it takes less."""
_FEW = 8
"""So many numbers of a rate show a schedule."""

ENDED_RATE = Kind(
    "ended_rate",
    "warning",
    "Look at how often the scheduler is stepped, for each batch or each epoch, and for how many "
    "steps it was made",
)


def ended_rates(evidence: Evidence) -> Iterator[Finding]:
    """Learning rates that are a thousandth of the largest and less for two fifths of a training."""
    for one in evidence.rates:
        largest = one.values.max()
        still_high = np.flatnonzero(one.values > _NOTHING * largest)
        first = int(still_high[-1]) + 1 if largest > 0 else 0
        if not 0 < first <= len(one.values) - _FEW:
            continue
        begin, since, end = one.steps[0], one.steps[first], one.steps[-1]
        if end - since >= _SHARE * (end - begin):
            text = (
                f"{one.quantity} falls from {largest:.3g} to {one.values[first]:.3g} by step "
                f"{since}, and is {one.values[-1]:.3g} at step {end}: since then hardly anything "
                "is learnt"
            )
            yield ENDED_RATE.at(one, first, text, f"above {_NOTHING * largest:.3g}")
            return


_FALL = 0.5
"""The share of the rate that is left after one of the falls: after others, at which it is read some
steps later, it may have climbed already.
"""
_FEWEST = 3
"""Falls that are no accident: runs may be resumed."""
_CLIMBS = 2
"""Times the falls: so often it has to climb."""
_STRAIGHT = 0.05
"""The largest difference of a slope from half of all: warm-ups are straight, and no other curve
looks so at whichever steps it is read."""
_BEGINS = 1.5
"""Times what it climbs in one step: with so little a warm-up begins, and a cycle that comes down in
one step, as `CyclicLR` may, goes back to its base."""

RESTARTED_WARM_UP = Kind(
    "restarted_warm_up",
    "warning",
    "Count the steps of the warm-up over the whole training, not within an epoch, and make the "
    "scheduler once, before the loop",
)


def restarted_warm_ups(evidence: Evidence) -> Iterator[Finding]:
    """Rates that climb, fall at one step, and climb from there anew, all the time.

    Rates that oscillate on purpose come down as they went up, or not to nothing, and restarts jump
    up and decay.
    """
    for one in evidence.rates:
        falls = _falls(one)
        if len(falls) >= _FEWEST:
            first, last = one.values[falls[0] - 1], one.values[falls[0]]
            text = (
                f"{one.quantity} climbs to {first:.3g} and falls back to {last:.3g} by step "
                f"{one.steps[falls[0]]}, and so {len(falls)} times and more: a warm-up that begins "
                "anew"
            )
            yield RESTARTED_WARM_UP.at(one, int(falls[0]), text, "one warm-up", value=float(last))
            return


def _falls(one: Watched) -> list[int]:
    """The places of falls, if the rate climbs as fast at all other steps."""
    falls = np.flatnonzero(np.diff(one.values) < 0)
    apart = np.delete(np.diff(one.steps), falls)
    climbs = np.delete(np.diff(one.values), falls) / apart
    is_deep = (one.values[falls + 1] < _FALL * one.values[falls]).any()
    if not is_deep or (np.diff(falls) == 1).any() or len(climbs) < _CLIMBS * len(falls):
        return []
    usual = median(climbs)
    # Between steps that are further apart it may have fallen, and be above where it was.
    is_near = (np.abs(climbs - usual) <= _STRAIGHT * usual) | ((climbs < usual) & (apart > 1))
    is_straight = bool(is_near.all())
    is_warm_up = usual > 0 and is_straight and one.values.min() <= _BEGINS * usual
    return [int(i) + 1 for i in falls] if is_warm_up else []


_MUCH = 3.0
"""Times the rate that a schedule begins with: its factors are mostly 1 at most."""
_MANY = 40
"""Numbers in which it rises."""

RISING_RATE = Kind(
    "rising_rate",
    "note",
    "Look at the schedule's function: a warm-up ends by min(1, step / warm_up); where rates are "
    "tried out one after the other, nothing is wrong",
)


def rising_rates(evidence: Evidence) -> Iterator[Finding]:
    """Rates that rise in a straight line to the end, far beyond what their schedule begins with."""
    for one, initial in with_initial_rates(evidence):
        climbs = np.diff(one.values) / np.diff(one.steps)
        last = float(one.values[-1])
        if len(climbs) < _MANY or not 0 < initial * _MUCH <= last:
            continue
        usual = median(climbs)
        if usual > 0 and (np.abs(climbs - usual) <= _STRAIGHT * usual).all():
            text = (
                f"{one.quantity} rises from {one.values[0]:.3g} in a straight line, and is "
                f"{last:.3g} at step {one.steps[-1]}, {last / initial:.3g} times the {initial:.3g} "
                "that the optimizer was made with"
            )
            at = int(np.argmax(one.values > initial))
            yield RISING_RATE.at(one, at, text, f"at most {initial:.3g}", value=last)
            return


def with_initial_rates(
    evidence: Evidence, *, of_cycles: bool = False
) -> Iterator[tuple[Watched, float]]:
    """The learning rates, each with the one that a scheduler took over; 0 where none is known.

    Args:
        evidence: The rates, and the settings of the optimizers' groups.
        of_cycles: Of one that is given another maximum, that.
    """
    settings = evidence.optimizer.group_settings
    for one in evidence.rates:
        group = int(one.quantity.partition(".group")[2] or 0)
        own = settings[group] if group < len(settings) else None
        yield one, own.initial or of_cycles * own.peak if own else 0.0


_FAR_BELOW, _PAST = 20.0, 0.95
"""Times the largest rate that an optimizer was made with more, and the share of it that a rate
which has begun to fall has come down to."""
_OF_FACTORS = 0.5
"""An optimizer is made with so much, as with 1, for a schedule that returns the rate itself."""

FAINT_RATE = Kind(
    "faint_rate",
    "warning",
    "Make the optimizer with lr=1.0 where the schedule's function returns the rate itself, as that "
    "of Noam does; or have it return a factor of what the optimizer was made with",
)


def faint_rates(evidence: Evidence) -> Iterator[Finding]:
    """Rates that rise, fall again, and are never near what the optimizer was made with."""
    for one, initial in with_initial_rates(evidence) if evidence.is_from_the_start else ():
        at = int(np.argmax(one.values))
        largest, last = float(one.values[at]), float(one.values[-1])
        rises = _FEW <= at < len(one.values) - _FEW and last < _PAST * largest
        if rises and 0 < _FAR_BELOW * largest < initial < _OF_FACTORS:
            text = (
                f"{one.quantity} rises to {largest:.3g} by step {one.steps[at]}, and falls from "
                f"there: it comes to {largest / initial:.2%} of the {initial:.3g} that the "
                "optimizer was made with, by which its schedule multiplies"
            )
            yield FAINT_RATE.at(one, at, text, f"near {initial:.3g}")
            return


_HALF = 0.5
"""The share of what the optimizer was made with that a warm-up has passed in so many steps."""
_LONG, _STAIR = 100, 10
"""Steps of a warm-up that is no short one, and those for which a rate stays that is set by epochs.
"""

SLOW_WARM_UP = Kind(
    "slow_warm_up",
    "note",
    "Look at how often the scheduler is stepped: a warm-up that is counted in steps is stepped "
    "after each batch; of a long training whose warm-up takes epochs, nothing is wrong",
)


def slow_warm_ups(evidence: Evidence) -> Iterator[Finding]:
    """Rates that rise by stairs, and are far below what their schedule is to come to at the end.

    That is what the optimizer was made with, and of `OneCycleLR` its maximum.
    """
    for one, initial in with_initial_rates(evidence, of_cycles=True):
        last = float(one.values[-1])
        rises = np.flatnonzero(np.diff(one.values))
        is_long = len(rises) > 1 and one.steps[-1] - one.steps[0] >= _LONG
        if not is_long or not 0 < last < _HALF * initial or (np.diff(one.values) < 0).any():
            continue
        if (np.diff(one.steps[rises + 1]) >= _STAIR).all():
            text = (
                f"{one.quantity} has come to {last:.3g} by step {one.steps[-1]}, in {len(rises)} "
                f"steps up: {last / initial:.0%} of the {initial:.3g} that it is to come to"
            )
            yield SLOW_WARM_UP.at(one, 0, text, f"near {initial:.3g}", value=last)
            return


_TIMES = 3.0
"""The factor by which a rate passes all before it: a warm-up takes many steps to come so far."""
_BEFORE, _AFTER = 12, 8
"""Numbers of a loss before the rate rose, and after it."""
_HIGHEST = 3
"""Of the numbers after it, the largest, of which the middle one counts: a loss may come down again.
"""
_WORSE = 1.5
"""Times the loss before it, which is beyond all those numbers, too: else it did no harm."""

RAISED_RATE = Kind(
    "raised_rate",
    "warning",
    "Look at the schedule: at its milestones and factors, and at what sets the learning rate at "
    "this step; a larger rate is to be warmed up",
)


def raised_rates(evidence: Evidence) -> Iterator[Finding]:
    """Rates that rise by a factor at once above all before them, by which the loss gets worse."""
    for one in evidence.rates:
        largest = np.maximum.accumulate(one.values)[:-1]
        is_raised = one.values[1:] >= _TIMES * largest
        is_raised[: _FEW - 1] = False
        for i in np.flatnonzero(is_raised & (largest > 0)) + 1:
            before, since = one.steps[i - 1], one.steps[i]
            if not any(
                _gets_worse(loss, int(before), int(since)) for loss in evidence.logged.losses
            ):
                continue
            first, last = one.values[i - 1], one.values[i]
            text = (
                f"{one.quantity} rises from {first:.3g} at step {before} to {last:.3g} at step "
                f"{since}, {last / first:.3g} times as much, and the loss with it"
            )
            yield RAISED_RATE.at(one, int(i), text, f"near {first:.3g}")
            return


def _gets_worse(loss: Watched, before: int, since: int) -> bool:
    """True for a loss that is larger soon after a step than it was up to another one."""
    old = loss.values[loss.steps <= before][-_BEFORE:]
    new = loss.values[loss.steps > since][:_AFTER]
    if len(old) < _FEW or len(new) < _HIGHEST:
        return False
    return median(np.sort(new)[-_HIGHEST:]) > max(
        float(old.max()), median(old) + (_WORSE - 1) * abs(median(old))
    )
