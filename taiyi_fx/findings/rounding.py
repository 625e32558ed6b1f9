"""Steps of the optimizer that the format of parameters rounds away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.lasting import STEPS
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Values, Watched, names_of

_NUMBERS = 2 * STEPS
"""Numbers of a series that it takes."""
_MANY, _NEARLY_ALL = 0.95, 0.97
"""Shares of a weight's elements that stay as they are; in healthy trainings half of them may."""
_OF_WEIGHTS = 0.5
"""The share of all weights beyond which it is the training's fault, and not a module's."""
_FULL_RATE = 0.3
"""The share of the largest learning rate below which steps are lost on purpose, at either end."""

_ADVICE = (
    "Keep parameters in float32 and compute in bfloat16 (torch.autocast, or the mixed precision of "
    "FSDP), or take an optimizer that rounds stochastically or keeps float32 copies. A larger "
    "learning rate moves more of them, as far as training stays stable"
)
UPDATES_LOST = Kind("updates_lost", "warning", _ADVICE)
NO_UPDATES_LEFT = Kind("updates_lost", "alert", _ADVICE)


def updates_lost(evidence: Evidence) -> Iterator[Finding]:
    """Weights that stay nearly as they are, at the full learning rate, by rounding alone."""
    every = [
        _at_full_rate(s, evidence) for s in evidence.of_each("UpdateLost") if "weight" in s.quantity
    ]
    every = [s for s in every if len(s.values) >= _NUMBERS]
    lost = [s for s in every if median(s.last_half) >= _MANY]
    if not lost:
        return
    if len(lost) > _OF_WEIGHTS * len(every):
        yield _of_model(lost)
        return
    for site in lost:
        yield _found(site, f"of the weight of {site.module!r}")


def _of_model(lost: list[Watched]) -> Finding:
    typical = sorted(lost, key=lambda s: median(s.last_half))[len(lost) // 2]
    of = "of all weights" if len(lost) > 1 else f"of the weight of {typical.module!r}"
    by = f" ({names_of(lost)})" if len(lost) > 1 else ""
    return _found(typical, f"{of}{by}", module="")


def _found(site: Watched, of: str, **others: str) -> Finding:
    share = median(site.last_half)
    kind = NO_UPDATES_LEFT if share >= _NEARLY_ALL else UPDATES_LOST
    i = int(np.argmax(site.values >= _MANY))
    text = (
        f"since step {site.steps[i]}, {_percent(share)} of the elements {of} stay exactly as they "
        "are at each step: their steps are too small for the format of parameters, which rounds "
        "them away"
    )
    return kind.at(site, i, text, "below 0.9", value=share, **others)


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{100 * share:.3g} %"


def _at_full_rate(s: Watched, evidence: Evidence) -> Watched:
    """The numbers at steps whose learning rate is no small part of the largest so far.

    A rate that still rises has no largest yet, and one that is not known may be rising.
    """
    rates = _rates(evidence, s)
    if rates is None:
        return s if evidence.is_from_the_start and len(s.values) >= 4 * _NUMBERS else s.at(_none(s))
    if rates[-1] > 1.01 * median(rates):
        return s.at(_none(s))
    return s.at(rates >= _FULL_RATE * rates.max())


def _rates(evidence: Evidence, s: Watched) -> Values | None:
    """The largest rate of any group at each step of a series; None if one is not known."""
    known: dict[int, float] = {}
    groups = [*evidence.of_quantity("LearningRate"), *evidence.of_each("LearningRate")]
    for one in groups:
        for step, rate in zip(one.steps.tolist(), one.values.tolist(), strict=True):
            known[step] = max(rate, known.get(step, 0.0))
    found = [known.get(step) for step in s.steps.tolist()]
    return None if None in found or not found else np.array(found, np.float64)


def _none(s: Watched) -> np.ndarray:
    return np.zeros(len(s.values), bool)
