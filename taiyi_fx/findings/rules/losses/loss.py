"""The loss itself: it jumps, it rises and stays, or it never falls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.facts.movers import moved_first
from taiyi_fx.findings.facts.robust import Numbers, median, smooth, spread, trailing_scores
from taiyi_fx.findings.facts.squashed import COSINES, OTHER_AXIS, RAW, SHARES, TWICE
from taiyi_fx.findings.facts.squashed import DIVERGENCE as OF_DIVERGENCE
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.batch_axes import of_sequences

_FEW = 8
"""Numbers below which a loss has no course yet."""
_MANY = 50
_RISE = 3.0
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
_BEGUN = 0.03
"""The share of their size by which weights move until a loss has to fall, as by RAdam's first steps
or in a long warm-up. Where labels are wrong they move by 0.05 to 0.1 in 150 steps."""
_SPIKE = 6.0
"""Robust deviations above the median of the last 128, as of the quantity LossSpike."""
_HIGH = 1.5
"""So many times that median is a spike worth a word: a loss near its floor has tiny deviations."""

_HUGE, _TIMES = 20.0, 5.0
"""Deviations, and times the median, of a spike that is no usual batch's."""
_CLEAR, _LEARNT = 8.0, 0.8
"""Deviations of a spike above what an untrained model costs, which has come down to this share of
it before: nothing of what was learnt helps."""
_PART = 0.2
"""Of where the loss began: jumps that are smaller undo little."""
_LASTS = 5
"""Numbers after it that are as high: then it is no single batch."""
_TAIL, _ALONE = 0.01, 0.7
"""The share of a loss's numbers that are as high, and of these the share that the next number is
back from: such batches come again and again, as hard samples in small batches do.
"""

_RATE = (
    "try a tenth of it, warm it up, or clip gradients; where a step has several backwards, divide "
    "the loss by their number"
)
DIVERGENCE = Kind(
    "divergence",
    "alert",
    f"The learning rate is too large for this model, or a gradient has the wrong sign: {_RATE}",
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
SQUASHED = Kind(
    "squashed_loss",
    "warning",
    "Leave that out, and give the loss what comes before it: cross_entropy applies a softmax "
    "itself, and binary_cross_entropy_with_logits a sigmoid, to numbers of any size and sign",
)
_FEATURES = (
    "Leave the softmax out: cross_entropy applies one to the logits, and features before the last "
    "layer want an activation such as relu"
)
_ONCE = (
    "Leave one of the two out: the model ends in one, or the loss applies one itself, as losses of "
    "logits do, and many of overlaps"
)
_SCALE = (
    "Multiply the cosines by a scale, 10 to 30 or a parameter, or divide them by a temperature, "
    "0.07 or so, before the loss"
)
UNSQUASHED = Kind(
    "unsquashed_loss",
    "alert",
    "Give nll_loss or ctc_loss what log_softmax returns; or take cross_entropy in the place of "
    "nll_loss, which applies it to logits",
)
_OVERLAP = "Take the sigmoid of it first, or a softmax over the classes: an overlap is of shares"
_LOGARITHMS = "what log_softmax returns"
_LOG = "Give kl_div what log_softmax returns as its first argument, and probabilities as its second"
CLASS_AXIS = Kind(
    "class_axis",
    "alert",
    "Take log_softmax over the axis of the classes, which is axis 1 of what nll_loss is given, and "
    "the last of what ctc_loss is given; or cross_entropy of the logits",
)
_DATA = "Inputs and targets may not belong together"
_GAMES = "the loss of a policy or a game need not fall"
PLATEAU = Kind("plateau", "note", f"{_DATA}; {_GAMES}")  # a hard problem looks the same
_SMALL_RATE = "the learning rate may be far too small"
_LARGE_RATE = "the learning rate may be too large"
_MISSING = "parameters may be missing from the optimizer"
_FAST, _TOO_FAST = 1e-3, 1e-2
"""Steps beside the weights from which on no rate is far too small, and those of one that is large.
"""


def divergence(evidence: Evidence) -> Iterator[Finding]:
    """A loss that rose far above where it began, and stays there."""
    for loss in evidence.losses:
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
        graph = evidence.loss_graphs.get(loss.quantity)
        if graph is not None and graph.is_judged:
            text += "; another model judges it, and comes to tell what this one makes from the data"
            others |= {"severity": "warning", "advice": _OF_JUDGE}
        yield DIVERGENCE.at(loss, i, text, f"below {bound:.3g}", **others)


def spikes(evidence: Evidence) -> Iterator[Finding]:
    """The highest jump of a loss above its last 128 numbers."""
    for loss in evidence.losses:
        scores, medians = trailing_scores(loss.values)
        is_spike = (scores > _SPIKE) & (loss.values > _HIGH * medians)
        if not is_spike.any():
            continue
        i = int(np.argmax(np.where(is_spike, scores, -np.inf)))
        step, times = int(loss.steps[i]), int(is_spike.sum())
        text = (
            f"step {step}: {loss.quantity!r} jumps to {loss.values[i]:.3g}, {scores[i]:.3g} robust "
            f"deviations above {medians[i]:.3g}{moved_first(evidence, step)}"
        )
        text += f"; {times} steps in all are as high" if times > 1 else ""
        after = loss.values[i : i + _LASTS]
        # The last batch of an epoch may be a single sample, which may cost more than any guess.
        is_latest = i + 1 == len(loss.values)
        lasts = len(after) == _LASTS and bool((after > _HIGH * medians[i]).all())
        is_huge = scores[i] > _HUGE and loss.values[i] > _TIMES * medians[i]
        # Of a loss that has fallen to nearly nothing, one hard sample is many times the median.
        first = median(loss.values[:3]) if evidence.is_from_the_start else 0.0
        guess, _ = guess_of(loss, evidence)
        is_seen = loss.values[i] >= _PART * first
        untrained = float(np.fmax(first, guess))
        has_learnt = medians[i] < _LEARNT * untrained
        is_worse = has_learnt and scores[i] > _CLEAR and loss.values[i] > _ABOVE * untrained
        is_odd = is_huge or (is_worse and not is_latest)
        is_wild = lasts or (is_odd and not _is_tail(loss.values, medians, is_spike))
        is_wild = is_wild and is_seen and not is_of_players(loss, evidence)
        is_wild = is_wild and not _is_part(loss, evidence)
        severity = "warning" if is_wild else "note"
        yield SPIKE.at(loss, i, text, f"near {medians[i]:.3g}", module="", severity=severity)


def _is_tail(values: Numbers, medians: Numbers, is_spike: NDArray[np.bool_]) -> bool:
    """True where jumps come again and again, each of a single number: so batches vary."""
    at = np.flatnonzero(is_spike)
    is_back = values[np.minimum(at + 1, len(values) - 1)] <= _HIGH * medians[at]
    return len(at) > max(_LASTS, _TAIL * len(values)) and bool(is_back.mean() >= _ALONE)


def squashed_twice(evidence: Evidence) -> Iterator[Finding]:
    """Losses that squash what the model has squashed already, or nothing of what they should."""
    for loss in evidence.losses:
        name = evidence.squashed.get(loss.quantity)
        if name in (RAW, OF_DIVERGENCE):
            text = f"{loss.quantity!r} takes logarithms of probabilities, and is given others"
            advice = _LOG if name == OF_DIVERGENCE else UNSQUASHED.advice
            yield UNSQUASHED.at(loss, 0, text, _LOGARITHMS, module="", advice=advice)
        elif name == OTHER_AXIS:
            text = f"{loss.quantity!r} takes log_softmax over another axis than that of the classes"
            yield CLASS_AXIS.at(loss, 0, text, "the axis of the classes", module="")
        elif name == SHARES:
            text = (
                f"the layer that returns the logits of {loss.quantity!r} is given what a softmax "
                "returns: shares that add up to 1, of which it can make little difference"
            )
            graph = evidence.loss_graphs.get(loss.quantity)
            module = graph.logits.module if graph and graph.logits else ""
            yield SQUASHED.at(loss, 0, text, "features", module=module, advice=_FEATURES)
        elif name == COSINES:
            guess, classes = guess_of(loss, evidence)
            least = float(np.log1p((classes - 1) * np.exp(-2.0)))
            text = (
                f"{loss.quantity!r} takes logits, and is given cosines, between -1 and 1: of "
                f"{classes} classes it costs {least:.3g} at least, and a guess {guess:.3g}"
            )
            yield SQUASHED.at(loss, 0, text, "logits", module="", advice=_SCALE)
        elif name and name.startswith(TWICE):
            once = name.removeprefix(TWICE)
            text = f"on the way to {loss.quantity!r}, a {once} is given what a {once} returns"
            others = {"module": "", "functions": (once,), "advice": _ONCE}
            yield SQUASHED.at(loss, 0, text, "logits", **others)
        elif not name and evidence.loss_graphs.get(loss.quantity, LossGraph()).overlaps:
            module = evidence.loss_graphs[loss.quantity].overlaps[0]
            made = f"what {module!r} returns" if module else "what a layer returns"
            text = (
                f"{loss.quantity!r} has a ratio of sums, as Dice's overlap is, of {made} as it is: "
                "of numbers of any size and sign, which are no shares"
            )
            yield UNSQUASHED.at(loss, 0, text, "shares", module=module, advice=_OVERLAP)
        elif name:
            text = _squashes(loss, name, evidence)
            yield SQUASHED.at(loss, 0, text, "logits", module="", functions=(name,))


def _squashes(loss: Watched, name: str, evidence: Evidence) -> str:
    """The sentence on a loss of what a function has squashed, with the module that calls it."""
    graph, module = evidence.loss_graphs.get(loss.quantity), _last_of(name, evidence)
    function = graph.squashing if graph else ""
    of = f"is {function} of" if function else "takes logits, and is given"
    return f"{loss.quantity!r} {of} what {f'{module!r}, a {name},' if module else name} returns"


def _last_of(name: str, evidence: Evidence) -> str:
    """The model's last module, if it is one of a function of torch: a `Sigmoid`; else empty."""
    last = evidence.order[-1] if evidence.order else ""
    own = evidence.attributes.get(last.partition("@")[0])
    return last if own and own.kind.rpartition(".")[2].lower() == name else ""


def plateau(evidence: Evidence) -> Iterator[Finding]:
    """A loss that stays where it began."""
    for loss in evidence.losses:
        if len(loss.values) < _MANY or not np.isfinite(loss.values).all() or _is_of_a_game(loss):
            continue
        n = len(loss.values) // 5
        start, last = median(loss.values[:n]), median(loss.values[-n:])
        noise = spread(loss.values) / np.sqrt(n)
        guess, classes = guess_of(loss, evidence)
        is_at_guess = _BELOW * guess <= last <= _ABOVE * guess
        falls = start - last > max(_FLAT * abs(start), 2 * noise)
        falls = falls and not (_LEAST * guess <= last and start <= _ABOVE * guess)
        if (falls and not (is_at_guess and _stays(loss, guess, noise))) or last > 1.5 * start:
            continue
        is_noise = start - last > _FLAT * abs(start) and not is_at_guess
        beyond = " beyond how it varies" * is_noise
        text = (
            f"{loss.quantity!r} does not fall{beyond}: it is {last:.3g} in the last {n} of its "
            f"{len(loss.values)} numbers (their median), and was {start:.3g} in the first {n}"
        )
        if is_at_guess:
            text += f"; a guess among {classes} classes costs {guess:.3g}"
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
        others["advice"] = "".join([_DATA, *_reasons(evidence), f"; {_GAMES}"])
        yield PLATEAU.at(loss, 0, text, f"below {start:.3g}", **others)


def _alike(loss: Watched, evidence: Evidence) -> str:
    """The ending of a sentence on logits that hardly differ between samples; else empty."""
    graph = evidence.loss_graphs.get(loss.quantity)
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
    moves = bool(steps) and all(values.any() for values in steps) and not evidence.left_out
    reasons = [_LARGE_RATE] * (usual >= _TOO_FAST) + [_SMALL_RATE] * (not usual >= _FAST)
    return [f", or {reason}" for reason in (*reasons, *([] if moves else [_MISSING]))]


def _still_falls(loss: Watched, noise: float) -> bool:
    """True for a loss that falls slowly, beyond its noise, and in its later parts as in the first.

    As that of small steps; what falls to that of a guess and stays there has done so at first.
    """
    first, second, *_, last = (median(part) for part in np.array_split(loss.values, 5))
    return second - last > max(3 * noise, 0.5 * (first - last), _CLOSE * abs(first))


def _moved(evidence: Evidence) -> float:
    """The share of their size by which weights have moved, all steps together; NaN if not known."""
    ways = [
        median(s.values[np.isfinite(s.values)]) * (s.steps[-1] - s.steps[0])
        for s in evidence.steps_of_weights
        if np.isfinite(s.values).any()
    ]
    return median([way for way in ways if way > 0]) if any(ways) else np.nan


def guess_of(loss: Watched, evidence: Evidence) -> tuple[float, int]:
    """The loss of a guess that gives all classes the same chance, and how many there are."""
    classes = evidence.classes.get(loss.quantity, 0)
    return (float(np.log(classes)) if classes > 1 else np.nan), classes


def _stays(loss: Watched, guess: float, noise: float) -> bool:
    """True for a loss that came down to a guess's in the first fifth, and has not fallen since."""
    first, *parts = np.array_split(loss.values, 5)
    levels = np.array([median(part) for part in parts])
    is_there = bool(((_BELOW * guess <= levels) & (levels <= _ABOVE * guess)).all())
    return (
        is_there
        and median(first) > guess
        and levels[0] - levels[-1] <= max(2 * noise, _CLOSE * guess)
    )


def _noise(values: Numbers) -> float:
    return spread(np.diff(values)) / np.sqrt(2)


def _is_of_a_game(loss: Watched) -> bool:
    """True for one of several players, as of a GAN, whose losses need not fall."""
    return loss.quantity.lower() != "loss"


def _is_of_judge(loss: Watched, level: float, evidence: Evidence) -> bool:
    """True for yes or no of data and of what another makes, both of which cost what a guess does.

    A judge that cannot tell the two apart is what a generator is trained for.
    """
    graph = evidence.loss_graphs.get(loss.quantity)
    guess, classes = guess_of(loss, evidence)
    is_of_two = classes == _YES_OR_NO and graph is not None and graph.logits is None
    return is_of_two and _BELOW * 2 * guess <= level <= _ABOVE * 2 * guess


def is_of_players(loss: Watched, evidence: Evidence) -> bool:
    """True for one of several losses that have no total, as those of a generator and its judge.

    What one wins the other loses; and a penalty may come in each eighth step alone.
    """
    names = {one.quantity.lower() for one in evidence.losses}
    return len(names) > 1 and "loss" not in names


def _is_part(loss: Watched, evidence: Evidence) -> bool:
    """True for a loss beside a larger one that does not rise: a part of it, or a small penalty.

    As the divergence of a code from its prior, which rises from nothing as a model begins to use
    the code. What is called the loss itself is no part of another.
    """
    if not _is_of_a_game(loss):
        return False
    first, last = _ends_of(loss)
    ends = [_ends_of(whole) for whole in evidence.losses if whole is not loss]
    return any(begun >= ended >= last and begun >= first for begun, ended in ends)


def _ends_of(loss: Watched) -> tuple[float, float]:
    """The value with which a loss begins, and the one that it has at last."""
    return median(loss.values[:3]), median(loss.values[-max(3, len(loss.values) // 10) :])


def is_game(evidence: Evidence) -> bool:
    """True for a model of two players: their losses need not fall."""
    names = {one.module.partition(".")[0].lower() for one in evidence.series}
    return any(word in name for name in names for word in ("discriminator", "critic"))
