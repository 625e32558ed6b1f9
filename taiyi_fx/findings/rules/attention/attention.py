"""Attention that breaks down: weights all or nothing, logits that grow to it, all on one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, mostly, since
from taiyi_fx.findings.facts.robust import median, smooth
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FIRST = 5
"""Numbers from which the usual one is known."""
_FALL, _NONE = 0.15, 0.02
"""Of the entropy in the beginning, or of what half of the others have; and what is nothing."""
_LEAVES = 1.5
"""Times the bound of an entropy that has fallen, from which it is none any more."""
_SHARP = 30.0
"""Logits by which all heads of a layer look at one key; those that do so on purpose need fewer."""
_FEW, _PEAKED, _BEGINS, _APART = 2, 0.5, 10.0, 8.0
"""Others of its role; the share of their entropy, the logits, and how many times theirs, by which
one is sharp from the start."""
_RESTS = 0.9
"""The weight of the first key by which it is no matter of the scale."""
_LARGE, _TIMES, _STILL = 50.0, 4.0, 1.1
"""A size, a factor over the beginning, and one over a quarter of the numbers: it still grows."""
_MANY = 2 * STEPS
_SOLVED = 0.1
"""The share of what a loss began with, by which it has nearly nothing left to learn."""
_BEGINS_SO, _EVEN, _UNTRAINED = 0.6, 0.35, 0.9
_TWO = 2
"""The weight of the first key and the entropy with which no attention begins, and the share of a
guess's cost that an untrained model has."""
_ALL = 0.98
"""The weight of the first key in the mean over heads: of 12 heads none gives it less than 0.76.
Healthy trainings of some hundred steps have 0.16 at most. Of trained language models most heads
rest on it (arXiv 2309.17453, 2504.02732): that a layer is useless then is no more than likely."""

ATTENTION_COLLAPSE = Kind(
    "attention_collapse",
    "alert",
    "Where weights are all or nothing, no gradient reaches queries and keys: look at the scale of "
    "the logits, normalize queries and keys (QK-norm), cap the logits, or lower the learning rate",
)
ATTENTION_LOGIT_GROWTH = Kind(
    "attention_logit_growth",
    "warning",
    "They grow until weights are all or nothing and the loss jumps: normalize queries and keys "
    "(QK-norm), cap the logits, lower the learning rate, or decay their weights",
)

ATTENTION_SINK = Kind(
    "attention_sink",
    "warning",
    "It hands on the first value whatever comes behind it: look at the scale of its queries and "
    "keys, at masks that hide all others, and at what else the layer could tell; else leave it out",
)


_FAR = (
    "Look at what is added to the logits: a bias for distances has to be smaller the farther a key "
    "is, as minus a slope times the distance; and at the scale of queries and keys"
)


def attention_sinks(evidence: Evidence) -> Iterator[Finding]:
    """Attentions of which all heads rest on the first key; a note where they begin so."""
    collapsed = {found.module for found in attention_collapses(evidence)}
    for one in evidence.of_quantity("AttentionSink"):
        is_so = one.values >= _ALL
        # Where there is a single key, all weight is its.
        if one.module in collapsed or not mostly(is_so) or (one.values == 1).all():
            continue
        i, value = since(is_so), median(one.last_half)
        begins = median(one.values[:_FIRST]) >= _ALL
        text = (
            f"step {one.steps[i]}: the queries of {one.module!r} give {value:.1%} of their weight "
            "to the first key from here on, in all heads"
        )
        severity = "note" if begins else "warning"  # of a model that is trained already it is usual
        yield ATTENTION_SINK.at(one, i, text, "below 0.9", value=value, severity=severity)


def sharp_starts(evidence: Evidence) -> Iterator[Finding]:
    """Attentions of a model that knows nothing yet, of which most rest on the first key."""
    losses = evidence.logged.losses if evidence.is_from_the_start else []
    if not any(_is_untrained(loss, evidence) for loss in losses):
        return
    every = evidence.of_quantity("AttentionEntropy")
    entropies = {s.module: median(s.values[:_FIRST]) for s in every}
    known = [s for s in evidence.of_quantity("AttentionSink") if s.module in entropies]
    resting = [s for s in known if median(s.values[:_FIRST]) >= _BEGINS_SO]
    sharp = [s for s in resting if 0 < entropies[s.module] <= _EVEN]
    if len(sharp) >= max(_FEW, len(known) / 2):
        value = median(sharp[0].values[:_FIRST])
        text = (
            f"from the first step on the queries of {names_of(sharp)} give {value:.0%} of their "
            "weight to the first key, of a model that has learnt nothing yet"
        )
        yield ATTENTION_SINK.at(sharp[0], 0, text, "even weights", value=value, advice=_FAR)


def _is_untrained(loss: Watched, evidence: Evidence) -> bool:
    """True for a loss of a guess; of two, a trained model beside a reference begins there, too."""
    classes = evidence.logged.of_loss(loss).classes
    return classes > _TWO and float(loss.values[0]) >= _UNTRAINED * np.log(classes)


def attention_collapses(evidence: Evidence) -> Iterator[Finding]:
    """Attentions of which each query looks at a single key, by large logits."""
    largest = evidence.by_module("AttentionLogitMax")
    # Those of trained models may rest on the first key by logits of any size.
    known = evidence.of_quantity("AttentionSink")
    sinks = {one.module for one in known if median(one.values[:_FIRST]) >= _RESTS}
    every = [*evidence.of_quantity("AttentionEntropy")]
    usual_of = {one.module: median(one.values) for one in every}
    for one in every:
        of_others = _of_others(one, usual_of)
        usual = max(median(one.values[:_FIRST]), of_others)
        logits = largest.get(one.module)
        is_so = _stays_below(max(_FALL * usual, _NONE), one)
        is_sharp = logits is None or median(logits.last_half) >= _SHARP
        has_collapsed = mostly(is_so) and is_sharp
        if (
            not has_collapsed
            and one.module not in sinks
            and _begins_sharp(one, every, largest, of_others)
        ):
            is_so = _stays_below(max(_PEAKED * usual, _NONE), one)
        elif not has_collapsed:
            continue
        if not mostly(is_so) or not one.values.any():  # of a single key it is 0
            continue
        i, value = since(is_so), median(one.last_half)
        by = "" if logits is None else f", by logits of up to {logits.values[-1]:.3g}"
        text = (
            f"step {one.steps[i]}: the queries of {one.module!r} look at one key each from here "
            f"on{by}: the entropy of their weights is {value:.2g}"
        )
        expected = f"near {usual:.3g}" if usual > _NONE else "well above 0"
        others = {
            "value": value,
            "severity": "alert" if has_collapsed else "warning",
        }
        yield ATTENTION_COLLAPSE.at(one, i, text, expected, **others)


def attention_logit_growths(evidence: Evidence) -> Iterator[Finding]:
    """Attentions whose largest logit has become large, and still grows.

    A note where the loss has come down to little: what is told by one key is told by large logits.
    """
    collapsed = {found.module for found in attention_collapses(evidence)}
    others = {"severity": "note"} if _is_solved(evidence) else {}
    for one in evidence.of_quantity("AttentionLogitMax"):
        n = len(one.values)
        if n < _MANY or one.module in collapsed:
            continue
        usual, before = median(one.values[:_FIRST]), median(one.values[n // 2 : 3 * n // 4])
        value, bound = median(one.values[3 * n // 4 :]), max(_LARGE, _TIMES * usual)
        if not (value >= bound and value >= _STILL * before):
            continue
        i = int((one.values >= bound).argmax())
        text = (
            f"step {one.steps[i]}: the largest logit of {one.module!r} reaches {bound:.3g}, and is "
            f"{value:.3g} by now, where it was {usual:.3g}"
        )
        expected = "tens at most, without a trend"
        yield ATTENTION_LOGIT_GROWTH.at(one, i, text, expected, value=value, **others)


def _is_solved(evidence: Evidence) -> bool:
    """True if a loss has come down to a tenth of what it began with."""
    losses = evidence.logged.losses if evidence.is_from_the_start else ()
    return any(
        len(loss.values) > _MANY
        and 0 < median(loss.values[-_FIRST:]) <= _SOLVED * median(loss.values[:_FIRST])
        for loss in losses
    )


def _stays_below(bound: float, one: Watched) -> NDArray[np.bool_]:
    """A mask of the numbers that are small, if half of the last half are: else of none.

    What came below the bound has to leave it by half, for some numbers, to be out of it: entropies
    that are near it all the time would be found at one look, and not at the next.
    """
    if not median(one.last_half) <= bound:
        return np.zeros(len(one.values), bool)
    return smooth(np.nan_to_num(one.values, nan=np.inf)) <= _LEAVES * bound


def _begins_sharp(
    one: Watched, every: Sequence[Watched], largest: Mapping[str, Watched], usual: float
) -> bool:
    """True if it begins with logits far beyond those of all others, and half of their entropy."""
    if not median(one.values[:_FIRST]) <= _PEAKED * usual:
        return False
    others = [s.module for s in every if s.module != one.module and s.role == one.role]
    known = [largest[m] for m in (one.module, *others) if m in largest]
    if len(others) < _FEW or len(known) < 1 + len(others):
        return False
    own, *beside = (median(s.values[:_FIRST]) for s in known)
    return own >= max(_BEGINS, _APART * max(beside))


def _of_others(one: Watched, entropies: Mapping[str, float]) -> float:
    """The median of the others' entropies; 0 of fewer than two others."""
    others = [value for module, value in entropies.items() if module != one.module]
    return median(others) if len(others) > 1 else 0.0
