"""Errors that stay above that of one constant answer: the mean of the targets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.regression import Regression
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_of_a_game, is_unsteady

_MANY = 100
"""Numbers of a loss within which a model learns to return the mean."""
_WORSE = 2.0
"""Times the error of the mean in any batch that was looked at, as batches differ."""
_APART = 5.0
"""Times the deviation of the targets, by which outputs vary or targets are off 0."""
_FALLS = 0.7
"""Of a fifth of the numbers before the last fifth: it is on its way."""
_PARTS = 5

WORSE_THAN_MEAN = Kind(
    "worse_than_mean",
    "warning",
    "Compare some outputs with their targets: their scale, their order and their axes; then look "
    "at the learning rate",
)
_SMALLER = (
    "Begin with smaller outputs: smaller weights of the last layer, or of embeddings whose "
    "products are returned; or bring the targets to the scale of what the model returns"
)
_STANDARDIZE = (
    "Subtract the mean of the targets and divide by their deviation, and add it again to what the "
    "model predicts; or begin with the mean as the last layer's bias"
)


def worse_than_mean(evidence: Evidence) -> Iterator[Finding]:
    """Losses at whose end the mean of the targets, for each sample the same, would cost half."""
    for loss in evidence.logged.losses if evidence.is_from_the_start else ():
        known = evidence.logged.of_loss(loss).regressions
        costs = [one.constant for one in known]
        worst = max(costs, default=np.nan)
        last = median(loss.values[-max(1, len(loss.values) // _PARTS) :])
        if len(loss.values) < _MANY or not last > _WORSE * worst > 0:
            continue
        if is_of_a_game(loss, evidence) or is_unsteady(loss, evidence):
            continue
        text = (
            f"{loss.quantity!r} is {last:.3g} in its last {len(loss.values) // _PARTS} numbers "
            "(their median); the mean of the targets, as the same answer for every sample, costs "
            f"{worst:.3g}"
        )
        why, others = _why(known[0])
        severity = "note" if _is_on_its_way(loss) and not _is_too_large(known[0]) else "warning"
        others |= {"module": "", "value": last, "severity": severity}
        yield WORSE_THAN_MEAN.at(loss, -1, text + why, f"below {worst:.3g}", **others)


def _why(first: Regression) -> tuple[str, dict[str, str]]:
    """The ending of the sentence by the first batch, and the advice, where that tells."""
    varies = f"by {first.target:.3g}"
    if _is_too_large(first):
        why = f"; at first its outputs varied by {first.returned:.3g}, and the targets {varies}"
        return why, {"advice": _SMALLER}
    if first.target_mean > _APART * first.target:
        why = f"; the targets are near {first.target_mean:.3g} in size, and vary {varies}"
        return why, {"advice": _STANDARDIZE}
    return "", {}


def _is_too_large(first: Regression) -> bool:
    return first.returned > _APART * first.target > 0


def _is_on_its_way(loss: Watched) -> bool:
    *_, before, last = (median(part) for part in np.array_split(loss.values, _PARTS))
    return last < _FALLS * before
