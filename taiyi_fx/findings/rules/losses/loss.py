"""The loss itself: it jumps, or it rises and stays."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.movers import moved_first
from taiyi_fx.findings.facts.robust import Numbers, median, smooth, spread, trailing_scores
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 8
"""Numbers below which a loss has no course yet."""
_RISE = 3.0
_SPIKE = 6.0
"""Robust deviations above the median of the last 128, as of the quantity LossSpike."""
_HIGH = 1.5
"""So many times that median is a spike worth a word: a loss near its floor has tiny deviations."""
_FAINT = 12.0
"""Deviations of a spike of which many a training has some."""
_HUGE, _TIMES = 20.0, 5.0
"""Deviations, and times the median, of a spike that is no usual batch's."""
_CLEAR, _LEARNT = 8.0, 0.8
"""Deviations of a spike above what an untrained model costs, which has come down to this share of
it before: nothing of what was learnt helps."""
_WORSE = 1.05
"""And so many times that cost."""
_STEADY = 4.0
"""Times the least that the mean of a batch's targets costs, as of returns it grows."""
_PART = 0.2
"""Of where the loss began: jumps that are smaller undo little."""
_MOST_OF_ONE = 12.0
"""The cross entropy of one case that a model is sure of, and wrong about: a chance of 6e-6."""
_FEW_CASES = 3
"""So many may be of one batch, as where they are drawn again and again: they are over at once."""
_LASTS, _STAYS = 5, 3.0
"""Numbers after it that are as high, by so many deviations: then it is no single batch."""
_TAIL, _ALONE = 0.01, 0.7
"""The share of a loss's numbers that are as high, and of these the share that the next number is
back from: such batches come again and again, as hard samples in small batches do.
"""
_RUNS, _APART = 4, 5
"""Jumps that are no multiple of so many numbers apart by chance."""
_THE_LOSS = re.compile(r"((train|training|total)[ _/.-]*)?loss([ _/.-]*(train|training|total))?")
_PLAYERS = re.compile(
    r"discriminator|critic|judge|generator|policy|actor|value|adversar|(?<![a-z])[dg](?![a-z])"
)
"""What the only loss of a monitor is called, if it is that of one of several players."""

_RATE = (
    "try a tenth of it, warm it up, or clip gradients; where a step has several backwards, divide "
    "the loss by their number"
)
DIVERGENCE = Kind(
    "divergence",
    "alert",
    "The learning rate is too large for this model, or a gradient is wrong (taiyi_fx.step_check "
    f"compares it with the loss): {_RATE}",
)
_OF_JUDGE = (
    "Look at whether it can make what the data are: at the range of its last activation, as -1 to "
    "1 of a tanh, beside that of the data; then at the learning rates of the two"
)
SPIKE = Kind(
    "loss_spike",
    "note",
    "Look at the batch of this step and at the modules that moved first; if it comes again, clip "
    "gradients or lower the learning rate",
)
_COMMON = 0.02
"""The share of jumps among all numbers from which on they are no exception."""
_AT_TIMES = (
    "Look at what happens every {} steps: a target network that is copied, an epoch that begins, "
    "an evaluation that leaves something changed"
)


def divergence(evidence: Evidence) -> Iterator[Finding]:
    """A loss that rose far above where it began, and stays there."""
    for loss in evidence.logged.losses:
        values = smooth(loss.values)
        if len(values) < _FEW or (values <= 0).any():
            continue
        start = median(loss.values[:3])
        low = float(np.minimum.accumulate(values)[-1])
        last = values[-max(3, len(values) // 10) :]
        bound = _RISE * max(start, low)
        if last.min() <= bound or last.min() - start < 6 * _noise(loss.values):
            continue
        if is_of_players(loss, evidence) or _is_part(loss, evidence):
            continue
        i = int(np.flatnonzero(values <= bound)[-1]) + 1
        step = int(loss.steps[i])
        text = (
            f"step {step}: {loss.quantity!r} rises from {start:.3g} to {float(last.min()):.3g} and "
            f"stays there{moved_first(evidence, step)}"
        )
        others: dict[str, str] = {"module": ""}
        graph = evidence.logged.of_loss(loss).graph
        if graph is not None and graph.is_judged:
            text += "; another model judges it, and comes to tell what this one makes from the data"
            # A score without a scale, as a critic's, may be any number.
            severity = "note" if graph.is_score else "warning"
            others |= {"severity": severity, "advice": _OF_JUDGE}
        yield DIVERGENCE.at(loss, i, text, f"below {bound:.3g}", **others)


def spikes(evidence: Evidence) -> Iterator[Finding]:
    """The highest jump of a loss above its last 128 numbers.

    Not a faint one that is over at once, that nothing else moves with, and that is less than the
    loss was at first: so hard samples are.
    """
    for loss in evidence.logged.losses:
        scores, medians = trailing_scores(loss.values)
        is_spike = (scores > _SPIKE) & (loss.values > _HIGH * medians)
        if not is_spike.any():
            continue
        i = int(np.argmax(np.where(is_spike, scores, -np.inf)))
        step, times = int(loss.steps[i]), int(is_spike.sum())
        jumps, moved = loss.values - medians, moved_first(evidence, step)
        text = (
            f"step {step}: {loss.quantity!r} jumps to {loss.values[i]:.3g}, {scores[i]:.3g} robust "
            f"deviations above {medians[i]:.3g}{moved}"
        )
        text += f"; {times} steps in all are spikes" if times > 1 else ""
        highest = is_spike & (jumps > jumps[i] / 2)
        every = _period_of(loss, highest) or _period_of(loss, is_spike)
        text += f", mostly from each {every}th step on" if every else ""
        after = loss.values[i : i + _LASTS]
        # The last batch of an epoch may be a single sample, which may cost more than any guess.
        is_latest = i + 1 == len(loss.values)
        high = max(
            _HIGH * medians[i], medians[i] + (loss.values[i] - medians[i]) * _STAYS / scores[i]
        )
        lasts = len(after) == _LASTS and bool((after > high).all())
        is_huge = scores[i] > _HUGE and loss.values[i] > _TIMES * medians[i]
        # Of a loss that has fallen to nearly nothing, one hard sample is many times the median.
        first = median(loss.values[:3]) if evidence.is_from_the_start else 0.0
        guess, _ = guess_of(loss, evidence)
        is_seen = loss.values[i] >= _PART * first
        untrained = float(np.fmax(first, guess))
        has_learnt = medians[i] < _LEARNT * untrained
        is_worse = has_learnt and scores[i] > _CLEAR and loss.values[i] > _WORSE * untrained
        is_odd = is_huge or (is_worse and not is_latest)
        cases = _cases_of(loss, float(jumps[i]), evidence)
        is_hard = cases <= 1 or (cases <= _FEW_CASES and bool((after[1:2] <= high).all()))
        is_wild = lasts or not (_is_tail(loss.values, medians, is_spike) or is_hard or not is_odd)
        # A loss below 0 has no level of its own: weights that are learnt may make it any number.
        is_wild = is_wild and is_seen and medians[i] > 0
        is_wild = is_wild and not (may_rise(loss, evidence) or is_unsteady(loss, evidence))
        is_low = loss.values[i] <= untrained
        if scores[i] < _FAINT and is_low and not (is_wild or every or moved):
            continue  # a batch that is harder than others
        is_common = times > max(_LASTS, _COMMON * len(loss.values))
        stays = lasts and bool((after > (medians[i] + loss.values[i]) / 2).all())
        is_below = is_low or loss.values[i] <= loss.values[:_FEW].max()
        if is_below and is_common and not (stays or every):
            continue  # many batches are, as those with a rare reward among them
        severity = "warning" if is_wild else "note"
        others = {"advice": _AT_TIMES.format(every)} if every else {}
        expected = f"near {medians[i]:.3g}"
        yield SPIKE.at(loss, i, text, expected, module="", severity=severity, **others)


def _period_of(loss: Watched, is_spike: NDArray[np.bool_]) -> int:
    """The steps after which jumps begin, or multiples of these; 0 if they come at any time."""
    at = np.flatnonzero(is_spike)
    begins = at[np.diff(at, prepend=-_APART - 1) > _APART]
    apart = int(np.gcd.reduce(np.diff(begins))) if len(begins) >= _RUNS else 0
    if apart < _APART:
        return 0
    return int(np.gcd.reduce(np.diff(loss.steps[begins])))


def may_rise(loss: Watched, evidence: Evidence) -> bool:
    """True for the loss of one of several players, and for a part of a larger one."""
    is_player = is_of_player(loss, evidence) or is_of_players(loss, evidence)
    return is_player or _is_part(loss, evidence)


def _is_tail(values: Numbers, medians: Numbers, is_spike: NDArray[np.bool_]) -> bool:
    """True where jumps come again and again, each of a single number: so batches vary."""
    at = np.flatnonzero(is_spike)
    is_back = values[np.minimum(at + 1, len(values) - 1)] <= _HIGH * medians[at]
    return len(at) > max(_LASTS, _TAIL * len(values)) and bool(is_back.mean() >= _ALONE)


def _cases_of(loss: Watched, jump: float, evidence: Evidence) -> float:
    """How many cases a jump of a mean takes at least; infinitely many where it is not known."""
    cases = [one.cases for one in evidence.logged.of_loss(loss).targets]
    return jump * min(cases) / _MOST_OF_ONE if cases else np.inf


def is_unsteady(loss: Watched, evidence: Evidence) -> bool:
    """True for an error of targets that vary more and more, as those that follow the model do."""
    costs = [one.constant for one in evidence.logged.of_loss(loss).regressions]
    return bool(costs) and max(costs) > _STEADY * min(costs)


def guess_of(loss: Watched, evidence: Evidence) -> tuple[float, int]:
    """The loss of a guess that gives all classes the same chance, and how many there are."""
    classes = evidence.logged.of_loss(loss).classes
    return (float(np.log(classes)) if classes > 1 else np.nan), classes


def _noise(values: Numbers) -> float:
    return spread(np.diff(values)) / np.sqrt(2)


def is_of_a_game(loss: Watched, evidence: Evidence) -> bool:
    """True for one of several players, as of a GAN, whose losses need not fall.

    Not of what is called the loss, as ``"train/loss"`` is, unless it is a judge's, nor of the only
    one, unless it is a player's.
    """
    graph = evidence.logged.of_loss(loss).graph
    if is_the_loss(loss):
        return graph is not None and graph.is_judging
    return len(evidence.logged.losses) > 1 or is_of_player(loss, evidence)


def is_of_player(loss: Watched, evidence: Evidence) -> bool:
    """True for a loss that is a player's, by its name, or as it is judged, a judge's or a policy's.

    Of a policy by PPO's ratios of probabilities.
    """
    graph = evidence.logged.of_loss(loss).graph
    is_one = graph is not None and (graph.is_judged or graph.is_judging or graph.is_of_policy)
    return is_one or _PLAYERS.search(loss.quantity.lower()) is not None


def is_of_players(loss: Watched, evidence: Evidence) -> bool:
    """True for one of several losses that have no total, as those of a generator and its judge.

    What one wins the other loses; and a penalty may come in each eighth step alone.
    """
    return len(evidence.logged.losses) > 1 and not any(map(is_the_loss, evidence.logged.losses))


def is_the_loss(loss: Watched) -> bool:
    """True for what is called the loss, without a part's name."""
    return _THE_LOSS.fullmatch(loss.quantity.lower()) is not None


def _is_part(loss: Watched, evidence: Evidence) -> bool:
    """True for a loss beside a larger one that does not rise: a part of it, or a small penalty.

    As the divergence of a code from its prior, which rises from nothing as a model begins to use
    the code. What is called the loss itself is no part of another.
    """
    if not is_of_a_game(loss, evidence):
        return False
    first, last = _ends_of(loss)
    ends = [_ends_of(whole) for whole in evidence.logged.losses if whole is not loss]
    return any(begun >= ended >= last and begun >= first for begun, ended in ends)


def _ends_of(loss: Watched) -> tuple[float, float]:
    """The value with which a loss begins, and the one that it has at last."""
    return median(loss.values[:3]), median(loss.values[-max(3, len(loss.values) // 10) :])


def is_game(evidence: Evidence) -> bool:
    """True for a model of two players: their losses need not fall."""
    names = {one.module.partition(".")[0].lower() for one in evidence.series}
    return any(word in name for name in names for word in ("discriminator", "critic"))
