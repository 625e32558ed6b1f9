"""Steps of the optimizer that the format of parameters rounds away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NUMBERS = 2 * STEPS
"""Numbers of a series that it takes."""
_MANY, _NEARLY_ALL = 0.95, 0.97
"""Shares of a weight's elements that stay as they are; in healthy trainings half of them may."""
_MOSTLY, _FEW = 0.8, 3
"""The share of most weights of a model by which it learns with a fifth of its steps, and weights
below which this is one module's."""
_OF_WEIGHTS = 0.5
"""The share of all weights beyond which it is the training's fault, and not a module's."""
_GAIN = 0.3
"""The size of weights that are factors near one, or of embeddings drawn so: to lose their steps is
usual in bfloat16, and trainings bear it."""
_FULL_RATE = 0.3
"""The share of the largest learning rate below which steps are lost on purpose, at either end."""

_ADVICE = (
    "Keep parameters in float32 and compute in bfloat16 (torch.autocast, or the mixed precision of "
    "FSDP), or take an optimizer that rounds stochastically or keeps float32 copies. A larger "
    "learning rate moves more of them, as far as training stays stable"
)
UPDATES_LOST = Kind("updates_lost", "warning", _ADVICE)
NO_UPDATES_LEFT = Kind("updates_lost", "alert", _ADVICE)
GAINS_LOST = Kind("updates_lost", "note", _ADVICE)


def updates_lost(evidence: Evidence) -> Iterator[Finding]:
    """Weights that stay nearly as they are, at the full learning rate, by rounding alone."""
    every = [s for s in _judged(evidence) if not _is_of_size_one(s, evidence)]
    lost = [s for s in every if _is_lost(s)]
    mostly = [s for s in every if median(s.last_half) >= _MOSTLY]
    of_model = mostly if len(mostly) >= _FEW else lost
    if of_model and len(of_model) > _OF_WEIGHTS * len(every):
        yield _of_model(of_model)
        return
    alone = (s for s in lost if median(s.last_half) >= _NEARLY_ALL)
    yield from (_found(s, UPDATES_LOST, f"of the weight of {s.module!r}") for s in alone)
    gains = [s for s in _judged(evidence) if _is_of_size_one(s, evidence) and _is_lost(s)]
    if gains and not lost:
        yield _found(gains[0], GAINS_LOST, f"of the weights of {names_of(gains)}")


def rounded_away(evidence: Evidence) -> frozenset[str]:
    """The modules whose weights do not change because rounding takes their steps away."""
    every = evidence.of_each("UpdateLost")
    return frozenset(s.module for s in every if "weight" in s.quantity and _is_lost(s))


def _judged(evidence: Evidence) -> list[Watched]:
    every = (s for s in evidence.of_each("UpdateLost") if "weight" in s.quantity)
    at_full_rate = (_at_full_rate(s, evidence) for s in every)
    return [s for s in at_full_rate if len(s.values) >= _NUMBERS]


def _is_lost(s: Watched) -> bool:
    return median(s.last_half) >= _MANY


def _is_of_size_one(s: Watched, evidence: Evidence) -> bool:
    """True of gains, as norms have them: in bfloat16 the steps to either side of 1 are 0.4 %."""
    size = evidence.by_module("ParameterRMS.weight").get(s.module)
    return size is not None and median(size.values) >= _GAIN


def _of_model(lost: list[Watched]) -> Finding:
    typical = sorted(lost, key=lambda s: median(s.last_half))[len(lost) // 2]
    of = "of most weights" if len(lost) > 1 else f"of the weight of {typical.module!r}"
    by = f" ({names_of(lost)})" if len(lost) > 1 else ""
    kind = NO_UPDATES_LEFT if median(typical.last_half) >= _NEARLY_ALL else UPDATES_LOST
    return _found(typical, kind, f"{of}{by}", module="")


def _found(site: Watched, kind: Kind, of: str, **others: str) -> Finding:
    share = median(site.last_half)
    i = int(np.argmax(site.values >= min(_MANY, share)))
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
    groups = evidence.rates
    for one in groups:
        for step, rate in zip(one.steps.tolist(), one.values.tolist(), strict=True):
            known[step] = max(rate, known.get(step, 0.0))
    found = [known.get(step) for step in s.steps.tolist()]
    return None if None in found or not found else np.array(found, np.float64)


def _none(s: Watched) -> np.ndarray:
    return np.zeros(len(s.values), bool)
