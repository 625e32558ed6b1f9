"""Schedules that go on behind their end: rates that have come to nothing, and climb again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Values, Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.optimizer.schedules import with_initial_rates

_NOTHING, _MUCH = 0.02, 0.1
"""Shares of the largest rate: what a cosine comes to at its end, and has climbed to again."""
_SMOOTH = 0.35
"""And the largest change from one number to the next: a restart jumps back at once."""
_SOME, _TIMES = 3, 3.0
"""Numbers on each way, down and up, in which it climbs as far as it fell, within a factor: a
warm-up that begins anew behind a cosine is much steeper."""
_BEGINS = 1.5
"""Times what the optimizer was made with: a cycle that is meant begins at its base."""

OVERRUN_SCHEDULE = Kind(
    "overrun_schedule",
    "warning",
    "Look at how often the scheduler is stepped, and for how many steps it was made (T_max, "
    "num_training_steps): each batch, each step of the optimizer, or each epoch; if its rate is "
    "to come and go, CosineAnnealingWarmRestarts says so",
)


def overrun_schedules(evidence: Evidence) -> Iterator[Finding]:
    """Rates that come down to nothing and climb again the way they came, as a cosine does."""
    for one, initial in with_initial_rates(evidence):
        other = np.flatnonzero(np.diff(one.values, prepend=np.nan))  # stairs, as by epochs, are one
        turn = _turn(one.values[other])
        low = None if turn is None else int(other[turn])
        if low is not None and one.values.max() <= _BEGINS * initial:
            yield _overrun(one, low)
            return


def _turn(rates: Values) -> int | None:
    """The place of the first low point that a rate comes to and leaves smoothly, at least half."""
    top = rates.max()
    if len(rates) < 2 * _SOME or not top > 0:
        return None
    shares = rates / top
    changes = np.diff(shares)
    lows = np.flatnonzero((shares <= _NOTHING) & (np.arange(len(shares)) >= _SOME))
    for i in map(int, lows):
        before, after = changes[i - _SOME : i], changes[i : i + _SOME]
        is_turn = len(after) == _SOME and (before < 0).all() and (after > 0).all()
        is_alike = 1 / _TIMES <= -after.sum() / before.sum() <= _TIMES if is_turn else False
        if is_alike and np.abs([*before, *after]).max() <= _SMOOTH:
            return i if shares[i:].max() >= _MUCH else None
    return None


def _overrun(one: Watched, low: int) -> Finding:
    again = low + int(np.argmax(one.values[low:]))
    text = (
        f"{one.quantity} falls from {one.values[:low].max():.3g} to {one.values[low]:.2g} by step "
        f"{one.steps[low]}, and climbs again, to {one.values[again]:.3g} at step "
        f"{one.steps[again]}: its schedule goes on behind its end"
    )
    return OVERRUN_SCHEDULE.at(one, low, text, "next to nothing", value=float(one.values[again]))
