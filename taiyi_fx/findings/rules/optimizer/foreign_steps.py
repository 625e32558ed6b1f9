"""Weights that change by more than their optimizer can make of its learning rate and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_OF_ADAM = 8.0
"""Times the learning rate: steps of Adam are of its size, and seven times that at most."""
_OF_SGD = 6.0
"""Times the learning rate and the largest gradient that was read, with all that momentum adds."""
_SHARE = 0.5
"""Of the numbers: a gradient between two readings may have been larger once."""
_FEW = 8
_BEGIN = 2
"""Numbers of the beginning, when something may bound or load a weight once."""
_LEAP = 3.0
"""Times the usual step of a weight."""
_TINY = 1e-30
_MOST = 0.5
"""The share of the weights of which it is the model's."""

FOREIGN_STEPS = Kind(
    "foreign_steps",
    "alert",
    "Something else than this optimizer writes into it: look for a second optimizer that has the "
    "same parameters, for averages, clamps and transfers that are written back, and for code that "
    "loads or initialises it",
)


class _Excess(NamedTuple):
    """Steps beyond what an optimizer takes.

    Attributes:
        site: The sizes of the steps.
        i: The index of the first of them.
        times: How many times as large as that the largest is.
    """

    site: Watched
    i: int
    times: float


def foreign_steps(evidence: Evidence) -> Iterator[Finding]:
    """Weights whose steps are beyond what the rule of their optimizer gives."""
    weights = evidence.steps_of_weights
    known = [s for s in weights if s.module in evidence.optimizer.groups and len(s.values) >= _FEW]
    found = [excess for s in known if (excess := _excess(s, evidence)) is not None]
    first = min(found, key=lambda one: int(one.site.steps[one.i]), default=None)
    if first and (len(found) > _MOST * len(known) or _is_of_all(first, known)):
        yield _finding(first, "", ", and most weights leap with it")
        return
    sites = {one.site.module: one for one in found}
    for site, name in in_blocks([one.site for one in found], evidence.parameters.weights):
        yield _finding(
            sites[site.module], name, f", so that {named(site, name)} is moved by something else"
        )


def _finding(one: _Excess, module: str, subject: str) -> Finding:
    text = (
        f"from step {one.site.steps[one.i]} on {one.site.title} is up to {one.times:.3g} times the "
        f"most that the learning rate of its optimizer allows{subject}"
    )
    return FOREIGN_STEPS.at(one.site, one.i, text, "at most 1 of it", module=module)


def _is_of_all(first: _Excess, known: Sequence[Watched]) -> bool:
    """True if most weights take far larger steps than usual at the first of these, as where all are
    loaded anew.
    """
    step = first.site.steps[first.i]
    leaps = [(s.values[s.steps == step] > _LEAP * median(s.values)).any() for s in known]
    return bool(sum(leaps) > _MOST * len(leaps))


def _excess(s: Watched, evidence: Evidence) -> _Excess | None:
    number, _ = evidence.optimizer.groups[s.module]
    if number >= len(evidence.optimizer.group_settings) or evidence.parameters.began_at_zero(
        s.module
    ):
        return None
    settings = evidence.optimizer.group_settings[number]
    largest = _largest_rate(number, evidence)
    if largest is None:
        return None
    decay = largest * abs(evidence.optimizer.decays.get(s.module, 0.0))
    if settings.rule == "adam":
        return _beside_rate(s, largest * max(_OF_ADAM, settings.most_rates), decay, evidence)
    if settings.rule == "sgd":
        sums = 1 / max(1 - settings.momentum, 1e-3)
        return _beside_gradients(s, largest * sums, decay * sums, evidence)
    return None


def _beside_rate(s: Watched, most: float, decay: float, evidence: Evidence) -> _Excess | None:
    own = evidence.parameters.sizes.get((s.module, parameter_of(s)))
    if own is None:
        return None
    ratio, size = at_common_steps([s, own])
    return _first(ratio, most / np.maximum(size.values, _TINY) + decay, 1)


def _beside_gradients(s: Watched, rate: float, decay: float, evidence: Evidence) -> _Excess | None:
    size, gradient = (
        evidence.parameters.weights.get(s.module),
        evidence.parameters.weight_gradients.get(s.module),
    )
    if size is None or gradient is None or s.quantity != "UpdateRatio.weight":
        return None
    ratio, size = at_common_steps([s, size])
    so_far = [gradient.values[gradient.steps <= step].max(initial=0.0) for step in ratio.steps]
    bound = rate * np.array(so_far) / np.maximum(size.values, _TINY) + decay
    return _first(ratio, _OF_SGD * bound, int(_SHARE * len(ratio.values)))


def _largest_rate(number: int, evidence: Evidence) -> float | None:
    """The largest learning rate that a group had; None where it was not read.

    The present one is no measure of what it was: schedules end at 0.
    """
    series = [*evidence.of_quantity(f"LearningRate.group{number}")]
    series = series or [*evidence.of_quantity("LearningRate")]
    return max((float(np.abs(one.values).max()) for one in series), default=None)


def _first(ratio: Watched, bound: Values, fewest: int) -> _Excess | None:
    beyond = np.flatnonzero(ratio.values > bound)
    is_first_alone = len(beyond) < _BEGIN + 1 and (beyond < _BEGIN).all()  # as of a first clamp
    if len(beyond) < fewest or is_first_alone:
        return None
    i = int(beyond[0])
    return _Excess(ratio, i, float((ratio.values / bound).max()))
