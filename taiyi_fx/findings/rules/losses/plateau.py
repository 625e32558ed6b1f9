"""A loss that stays where it began, or where a guess is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import Numbers, median, spread
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.batch_axes import of_sequences
from taiyi_fx.findings.rules.losses.loss import guess_of, is_game, is_of_a_game

_MANY = 50
_FLAT = 0.01
_LEVEL = 0.03
_BELOW, _ABOVE = 0.98, 1.05
"""Times the loss of a guess, between which nothing was learnt: to fit noise costs a little."""
_SAME = 1e-3
"""The share of the mean square of logits that differs between samples, where hardly any does."""
_YES_OR_NO = 2
_LEAST = 0.975
"""Times the loss of a guess, that a loss which begins at it has to fall below by its end."""
_CLOSE = 0.005
"""Of that loss: so little may a loss still fall that has come down to it."""
_SURE = 5.0
"""Times the deviation of a mean of one part: three times that of the difference of two medians."""
_BEGUN = 0.03
"""The share of their size by which weights move until a loss has to fall, as by RAdam's first steps
or in a long warm-up. Where labels are wrong they move by 0.05 to 0.1 in 150 steps."""
_DATA = "Inputs and targets may not belong together"
_GAMES = "the loss of a policy or a game need not fall"
PLATEAU = Kind("plateau", "note", f"{_DATA}; {_GAMES}")  # a hard problem looks the same
_NOISE = (
    "targets whose mean is 0 and whose deviation is 1 may be noise: it has to be that which was "
    "added to what the model is given, and no other draw"
)
_TRIAL = "taiyi_fx.step_check tells whether one batch can be learned, and looks for more"
_UNIT = 0.05
_SMALL_RATE = "the learning rate may be far too small"
_LARGE_RATE = "the learning rate may be too large"
_MISSING = "parameters may be missing from the optimizer"
_FAST, _TOO_FAST = 1e-3, 1e-2
"""Steps beside the weights from which on no rate is far too small, and those of one that is large.
"""


class _Level(NamedTuple):
    """The cost of a guess that is made without looking at what the model is given.

    Attributes:
        cost: The loss of it.
        low: The least loss at which nothing more was learnt.
        high: The most.
        words: The guess and its cost, in a sentence.
    """

    cost: float
    low: float
    high: float
    words: str

    def includes(self, loss: Numbers | float) -> bool:
        """True for losses that are all at this level; never for an unknown one."""
        return bool(np.all((self.low <= loss) & (loss <= self.high)))


def plateau(evidence: Evidence) -> Iterator[Finding]:
    """A loss that stays where it began."""
    for loss in evidence.logged.losses:
        if len(loss.values) < _MANY or not np.isfinite(loss.values).all():
            continue
        if is_of_a_game(loss, evidence):
            continue
        n = len(loss.values) // 5
        start, last = median(loss.values[:n]), median(loss.values[-n:])
        noise = spread(loss.values) / np.sqrt(n)
        level = _level_of(loss, evidence)
        is_at_guess = level.includes(last)
        falls = start - last > max(_FLAT * abs(start), 2 * noise)
        falls = falls and not (_LEAST / _BELOW * level.low <= last and start <= level.high)
        if (falls and not (is_at_guess and _stays(loss, level, noise))) or last > 1.5 * start:
            continue
        is_noise = start - last > _FLAT * abs(start) and not is_at_guess
        beyond = " beyond how it varies" * is_noise
        text = (
            f"{loss.quantity!r} does not fall{beyond}: it is {last:.3g} in the last {n} of its "
            f"{len(loss.values)} numbers (their median), and was {start:.3g} in the first {n}"
        )
        if is_at_guess:
            text += f"; {level.words}"
        text += of_sequences(evidence) + _alike(loss, evidence)
        is_sure = len(loss.values) >= 2 * _MANY and noise <= _LEVEL * abs(start)
        is_flat = is_sure and (abs(last - start) <= _LEVEL * abs(start) or falls)
        is_flat = is_flat and not (is_game(evidence) or _is_of_judge(loss, last, evidence))
        is_flat = is_flat and not _still_falls(loss, noise)
        moved = _moved(evidence)
        if moved < _BEGUN:
            text += f"; weights have moved by {moved:.1%} of their size so far"
        severity = "warning" if is_flat and not moved < _BEGUN else "note"
        others = {"module": "", "value": last, "severity": severity}
        is_known = is_at_guess and severity == "warning"
        ends = [_NOISE] * (is_known and _is_as_noise(loss, evidence)) + [_GAMES] * (not is_known)
        others["advice"] = "; ".join(["".join([_DATA, *_reasons(evidence)]), *ends, _TRIAL])
        yield PLATEAU.at(loss, 0, text, f"below {start:.3g}", **others)


def _level_of(loss: Watched, evidence: Evidence) -> _Level:
    """That of a guess among all classes, or of the mean of the targets; NaN if not known."""
    guess, classes = guess_of(loss, evidence)
    if classes > 1:
        words = f"a guess among {classes} classes costs {guess:.3g}"
        return _Level(guess, _BELOW * guess, _ABOVE * guess, words)
    known = evidence.logged.of_loss(loss).regressions
    cost = median([one.constant for one in known])
    cases = sum(one.cases for one in known)
    unsure = 2 * np.sqrt(2 / max(cases, 1))  # twice the deviation of a variance of so many
    words = f"the mean of the targets, as the same answer for every sample, costs {cost:.3g}"
    return _Level(cost, cost * (_BELOW - unsure), cost * (_ABOVE + unsure), words)


def _is_as_noise(loss: Watched, evidence: Evidence) -> bool:
    """True for targets of which each batch has the mean and the deviation of normal noise."""
    known = evidence.logged.of_loss(loss).regressions
    unsure = median([_UNIT + 2 / np.sqrt(one.cases) for one in known])
    return bool(known) and all(
        abs(one.target - 1) <= unsure and one.target_mean <= unsure for one in known
    )


def _alike(loss: Watched, evidence: Evidence) -> str:
    """The ending of a sentence on logits that hardly differ between samples; else empty."""
    graph = evidence.logged.of_loss(loss).graph
    module = graph.logits.module if graph is not None and graph.logits is not None else ""
    known = [s for s in evidence.of_quantity("OutputVariation") if module and s.module == module]
    if not known or not known[0].values[-1] <= _SAME:
        return ""
    part = float(np.sqrt(max(known[0].values[-1], 0.0)))
    return (
        f"; what {module!r} returns differs from sample to sample by {part:.1%} of its size at "
        f"step {known[0].steps[-1]}: look at what comes before it"
    )


def _reasons(evidence: Evidence) -> list[str]:
    """Other reasons for a loss that does not fall, but for those that what is recorded excludes."""
    steps = [s.values[np.isfinite(s.values)] for s in evidence.steps_of_weights]
    usual = median([median(values) for values in steps if len(values)])
    moves = (
        bool(steps) and all(values.any() for values in steps) and not evidence.optimizer.left_out
    )
    reasons = [_LARGE_RATE] * (usual >= _TOO_FAST) + [_SMALL_RATE] * (not usual >= _FAST)
    return [f", or {reason}" for reason in (*reasons, *([] if moves else [_MISSING]))]


def _still_falls(loss: Watched, noise: float) -> bool:
    """True for a loss that falls slowly, beyond its noise, and in its later parts as in the first.

    As that of small steps; what falls to that of a guess and stays there has done so at first.
    """
    first, second, *_, last = (median(part) for part in np.array_split(loss.values, 5))
    return second - last > max(_SURE * noise, 0.5 * (first - last), _CLOSE * abs(first))


def _moved(evidence: Evidence) -> float:
    """The share of their size by which weights have moved, all steps together; NaN if not known."""
    ways = [
        median(s.values[np.isfinite(s.values)]) * (s.steps[-1] - s.steps[0])
        for s in evidence.steps_of_weights
        if np.isfinite(s.values).any()
    ]
    return median([way for way in ways if way > 0]) if any(ways) else np.nan


def _stays(loss: Watched, level: _Level, noise: float) -> bool:
    """True for a loss that came down to a guess's in the first fifth, and has not fallen since."""
    first, *parts = np.array_split(loss.values, 5)
    levels = np.array([median(part) for part in parts])
    return (
        level.includes(levels)
        and median(first) > level.cost
        and levels[0] - levels[-1] <= max(2 * noise, _CLOSE * level.cost)
    )


def _is_of_judge(loss: Watched, level: float, evidence: Evidence) -> bool:
    """True for yes or no of data and of what another makes, both of which cost what a guess does.

    A judge that cannot tell the two apart is what a generator is trained for.
    """
    graph = evidence.logged.of_loss(loss).graph
    guess, classes = guess_of(loss, evidence)
    is_of_two = classes == _YES_OR_NO and graph is not None and graph.logits is None
    return is_of_two and _BELOW * 2 * guess <= level <= _ABOVE * 2 * guess
