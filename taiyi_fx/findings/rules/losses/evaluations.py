"""The loss of evaluation beside that of training: learnt by heart, or another task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median, smooth
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_the_loss

_FEW = 5
"""Evaluations below which a loss has no course yet."""
_LAST = 3
"""Of these at least as many are beyond, and a third of all."""
_RISE, _FAR_RISE = 1.1, 1.5
"""Times its lowest value, in the least of the last third, that is worth a word, and a warning."""
_FALLS_ON = 0.9
"""Of what the loss of training was where that of evaluation was lowest: it goes on to learn."""
_HARDLY = 0.95
"""Of what an untrained model costs: a loss of evaluation that stays above has learnt nothing."""
_LEARNT = 0.5
"""Of that, below which the loss of training has learnt much."""
_TIMES = 10.0
"""The loss of training, of which a loss of evaluation is more at each evaluation."""
_APART, _NEARLY = 3.0, 0.8
"""The same of one that ends at this share of what an untrained model costs."""
_SCALES = 10.0
"""Times what an untrained model costs: no model is so bad at the same task."""
_NEAR = 5
"""Numbers of training around an evaluation, as single batches differ."""

OVERFITTING = Kind(
    "overfitting",
    "warning",
    "Keep the weights of that step (stop early); more data, augmentation, dropout, weight decay "
    "or a smaller model make it later",
)
EVALUATION_GAP = Kind(
    "evaluation_gap",
    "warning",
    "Evaluate a batch of training: if its loss is as high, the model is run in another way, as in "
    "another mode or by statistics that lag; if not, compare the data of evaluation, their scale, "
    "order and labels, with those of training, whose samples may have been learnt by heart",
)

_OF_SCALE = (
    "Compare the targets and inputs of evaluation with those of training: they are of another "
    "scale or unit, as where the one are normalised and the other are not; or the loss is a sum"
)
UNDEFINED_EVALUATION = Kind(
    "undefined_evaluation",
    "warning",
    "Look at the samples of evaluation, and at how their losses are averaged: of no sample a mean "
    "has no value; in half precision it may be out of range",
)


def overfitting(evidence: Evidence) -> Iterator[Finding]:
    """Losses of evaluation that rise for good while the loss of training goes on to fall."""
    for loss in _finite(evidence):
        trained = _of_training(loss, evidence)
        n = len(loss.values)
        if trained is None or n < _FEW or loss.values.min() <= 0:
            continue
        i = int(np.argmin(smooth(loss.values, _LAST)))
        low, after = median(loss.values[max(i - 1, 0) : i + 2]), loss.values[i + 1 :]
        beyond = after[-max(_LAST, n // _LAST) :]
        if i == 0 or len(after) < max(_LAST, n // _LAST) or beyond.min() < _RISE * low:
            continue
        then, now = _near(trained, int(loss.steps[i])), _near(trained, int(loss.steps[-1]))
        if not 0 < now < _FALLS_ON * then:
            continue
        step, last = int(loss.steps[i]), median(beyond)
        text = (
            f"{_shown(loss)} is lowest at step {step}, {low:.3g}, and rises to {last:.3g}, while "
            f"{trained.quantity!r} falls on from {then:.3g} to {now:.3g}: what is learnt since is "
            "of the samples of training alone"
        )
        severity = "warning" if beyond.min() >= _FAR_RISE * low else "note"
        others = {"module": "", "value": last, "severity": severity}
        yield OVERFITTING.at(loss, i, text, f"near {low:.3g}", **others)


def evaluation_gaps(evidence: Evidence) -> Iterator[Finding]:
    """Losses of evaluation that stay at what an untrained model costs, as training's falls.

    Or that end there, or far above the first one, where they never were near that of training.
    """
    for loss in _finite(evidence) if evidence.is_from_the_start else ():
        trained = _of_training(loss, evidence)
        if trained is None or len(loss.values) < _FEW:
            continue
        first, last = median(trained.values[:_NEAR]), median(trained.values[-_NEAR:])
        low = float(loss.values.min())
        if not 0 < last < _LEARNT * first:
            continue
        if low < _HARDLY * max(first, loss.values[0]):
            yield from _gap_from_the_first_on(loss, trained, first)
            continue
        is_other = low > _SCALES * max(first, 0.0)
        cost = f"{low / first:.2g} times what" if is_other else "what"
        text = (
            f"{_shown(loss)} is {low:.3g} at best, in {len(loss.values)} evaluations: {cost} an "
            f"untrained model costs ({trained.quantity!r} begins at {first:.3g}), while "
            f"{trained.quantity!r} falls to {last:.3g}"
        )
        others: dict[str, Any] = {"module": "", "value": low}
        others |= {"advice": _OF_SCALE} if is_other else {}
        yield EVALUATION_GAP.at(loss, 0, text, f"below {first:.3g}", **others)


def _gap_from_the_first_on(loss: Watched, trained: Watched, first: float) -> Iterator[Finding]:
    near = np.array([_near(trained, int(step)) for step in loss.steps])
    least = float((loss.values / near).min()) if near.min() > 0 else 0.0
    beyond = loss.values[-max(_LAST, len(loss.values) // _LAST) :]
    has_risen = least >= _TIMES and beyond.min() >= _FAR_RISE * loss.values[0]
    # A sum of samples is of any size, and falls.
    is_as_untrained = least >= _APART and beyond.min() >= _NEARLY * max(first, loss.values[0])
    if has_risen or is_as_untrained:
        text = (
            f"{_shown(loss)} is {loss.values[0]:.3g} in the first evaluation, beside "
            f"{near[0]:.3g} of {trained.quantity!r}, and {median(beyond):.3g} in the last ones: at "
            f"least {least:.3g} times as large in each of {len(loss.values)} evaluations"
        )
        others = {"module": "", "value": median(beyond)}
        yield EVALUATION_GAP.at(loss, 0, text, f"near {near[0]:.3g}", **others)


def is_far_above(loss: Watched, evidence: Evidence) -> bool:
    """True for a loss of evaluation that is half as large again as that of training, at the end."""
    trained, known = _of_training(loss, evidence), loss.at(np.isfinite(loss.values))
    if trained is None or not len(known.values):
        return False
    last = slice(-max(1, len(known.values) // _LAST), None)
    ends = zip(known.steps[last], known.values[last], strict=True)
    return all(value > _FAR_RISE * _near(trained, int(step)) for step, value in ends)


def undefined_evaluations(evidence: Evidence) -> Iterator[Finding]:
    """Losses of evaluation that are NaN or Inf."""
    for loss in evidence.logged.losses_of_evaluation:
        bad = ~np.isfinite(loss.values)
        if bad.any():
            i, many = int(bad.argmax()), int(bad.sum())
            more = f", as are {many} of its {len(bad)} numbers" if many > 1 else ""
            text = f"step {loss.steps[i]}: {_shown(loss)} is {loss.values[i]:.3g}{more}"
            yield UNDEFINED_EVALUATION.at(loss, i, text, "finite", module="")


def _finite(evidence: Evidence) -> Iterator[Watched]:
    """The losses of evaluation, of which each number counts that is finite."""
    for loss in evidence.logged.losses_of_evaluation:
        if len((known := loss.at(np.isfinite(loss.values))).values):
            yield known


def _shown(loss: Watched) -> str:
    return repr(loss.quantity) + (" in evaluation" if loss.mode != "train" else "")


def _of_training(loss: Watched, evidence: Evidence) -> Watched | None:
    """The loss of training beside one of evaluation: the only one, its namesake, or the whole."""
    every = evidence.logged.losses
    if len(every) == 1:
        return every[0]
    same = [one for one in every if one.quantity == loss.quantity]
    return next(iter(same or filter(is_the_loss, every)), None)


def _near(trained: Watched, step: int) -> float:
    """The loss of training at an evaluation: the median of the numbers before it."""
    end = max(int(np.searchsorted(trained.steps, step, side="right")), 1)
    return median(trained.values[max(end - _NEAR, 0) : end])
