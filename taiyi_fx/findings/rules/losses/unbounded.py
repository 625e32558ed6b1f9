"""A loss that falls without end, as a term of it has the wrong sign."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import guess_of, is_of_players

_MANY = 40
"""Numbers below which a loss has no course yet."""
_TIMES = 100.0
"""Times the largest size of the beginning, and times 1: a likelihood of densities falls below zero,
but not so far."""
_FIRST = 5
_TWO = 2
_QUARTERS = 1.5
"""The factor of its size in the last quarter over that in the quarter before: it goes on."""

_BELOW = 0.01
"""So far below 0 no rounding takes a loss."""

_TARGETS = (
    "Give binary_cross_entropy_with_logits targets of 0 and 1: masks of 0 and 255 divided by 255, "
    "F.one_hot(y, classes).float() for the numbers of classes, or take cross_entropy for those"
)
_TO_ONE = (
    "Look at the targets: a softmax over the axis of the classes makes them add up to 1 for each "
    "sample; one over the samples, or values that are cut off, do not"
)
UNBOUNDED_LOSS = Kind(
    "unbounded_loss",
    "alert",
    "Look for a term of the loss with the wrong sign, or one that nothing bounds: minimizing it "
    "makes what it is computed of larger and larger",
)


def unbounded_losses(evidence: Evidence) -> Iterator[Finding]:
    """Losses below zero whose size grows and grows, and those that begin at a guess's with a minus.

    No cross entropy is below zero.
    """
    for loss in evidence.logged.losses:
        if (found := _of_range(loss, evidence)) is not None:
            yield found
            continue
        sizes, n = -loss.values, len(loss.values)
        guess, classes = guess_of(loss, evidence)
        if evidence.is_from_the_start and _is_negated(loss, guess) and _has_sign(loss, evidence):
            text = (
                f"{loss.quantity!r} begins at {loss.values[0]:.3g}, about what a guess among "
                f"{classes} classes costs with a minus, and falls to {loss.values[-1]:.3g}"
            )
            yield UNBOUNDED_LOSS.at(loss, 0, text, "above 0", module="")
            continue
        if (found := _of_targets(loss, evidence)) is not None:
            yield found
            continue
        if n < _MANY or not np.isfinite(sizes).all():
            continue
        bound = _TIMES * max(1.0, float(np.abs(sizes[:_FIRST]).max()))
        before, last = _most(sizes[n // 2 : 3 * n // 4]), _most(sizes[3 * n // 4 :])
        if last > bound and last > _QUARTERS * before:
            i = int(np.flatnonzero(sizes > bound / _TIMES)[0])
            text = (
                f"from step {loss.steps[i]} on {loss.quantity!r} falls below zero without end, "
                f"from {loss.values[0]:.3g} to {loss.values.min():.3g}{_what_grows(evidence)}"
            )
            others = {"module": "", "value": float(loss.values.min())}
            yield UNBOUNDED_LOSS.at(loss, i, text, "bounded from below", **others)


def _most(sizes: Values) -> float:
    """A size that a fourth of some are beyond: of one that also jumps, not each is far below."""
    return float(np.quantile(sizes, 0.75))


def _of_range(loss: Watched, evidence: Evidence) -> Finding | None:
    """Targets of yes or no that are no shares: so no answer to them is the best."""
    known = [one for one in evidence.logged.of_loss(loss).targets if one.is_of_two]
    least, most = min((x.least for x in known), default=0), max((x.most for x in known), default=0)
    if least >= 0 and most <= 1:
        return None
    text = (
        f"{loss.quantity!r} takes targets between 0 and 1, and these lie between {least:.3g} and "
        f"{most:.3g}: the larger the logits, the smaller the loss, without end"
    )
    others = {"module": "", "value": most if most > 1 else least, "advice": _TARGETS}
    return UNBOUNDED_LOSS.at(loss, 0, text, "0 to 1", **others)


def _of_targets(loss: Watched, evidence: Evidence) -> Finding | None:
    """A cross entropy, or a divergence, that is below 0: no probabilities are its targets."""
    graph = evidence.logged.of_loss(loss).graph
    below = np.flatnonzero(loss.values < -_BELOW)
    if graph is None or not len(below):
        return None
    i = int(below[0])
    shown = f"step {loss.steps[i]}: {loss.quantity!r} is a"
    falls = f"and falls to {loss.values[i]:.3g}, below 0, as"
    found = partial(UNBOUNDED_LOSS.at, loss, i, expected="above 0", module="")
    if graph.is_divergence:
        text = f"{shown} divergence, {falls} none between shares that add up to 1 is"
        return found(text, severity="warning", advice=_TO_ONE)
    if graph.logits is None or not graph.logits.is_whole or loss.values[0] <= 0:
        return None
    text = f"{shown} cross entropy, {falls} no targets between 0 and 1 allow"
    return found(text, advice=_TARGETS)


def _has_sign(loss: Watched, evidence: Evidence) -> bool:
    """False for yes or no of one of two players: a generator may lower what its judge raises."""
    graph = evidence.logged.of_loss(loss).graph
    is_of_one = is_of_players(loss, evidence) or (graph is not None and graph.is_judged)
    return guess_of(loss, evidence)[1] > _TWO or not is_of_one


def _is_negated(loss: Watched, guess: float) -> bool:
    """True for one that begins near minus the cost of a guess, and falls from there."""
    first = median(loss.values[:_FIRST])
    begins = len(loss.values) >= 2 * _FIRST and -2 * guess < first < -guess / 2
    return begins and median(loss.values[-_FIRST:]) < _QUARTERS * first


def _what_grows(evidence: Evidence) -> str:
    """The ending of a sentence on a loss: the module whose output grows most, or nothing."""
    known = (s for s in evidence.of_quantity("OutputRMS") if s.values[0] > 0)
    grown = {s.module: float(s.values[-1] / s.values[0]) for s in known}
    module = max(grown, key=lambda name: grown[name], default="")
    if not grown or grown[module] < _TIMES:
        return ""
    return f"; it grows what {module!r} returns, by a factor of {grown[module]:.3g} so far"
