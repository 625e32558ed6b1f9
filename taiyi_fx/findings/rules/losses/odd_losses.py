"""Losses of a size that the logits they are made of do not explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NEAR = 1.5
"""The factor within which a loss is what the bounds allow, times the number of cases."""
_MANY = 16
"""Cases by which no accumulation of gradients divides, as a rule."""
_BEYOND = 1.1
"""Times the largest that shares can cost which add up to 1."""
_OUTWEIGHED = 8.0
"""Times the largest cross entropy: so large are no usual terms beside it, as those of boxes."""
_LARGE = 30.0
"""Times the largest gradient that a mean over all cases has."""

ODD_LOSS = Kind(
    "odd_loss",
    "warning",
    "Look at what lies between the logits and the number that backward is called of",
)
_TWICE = "The mean over a batch needs no further division by its size: each step is as much smaller"
_TERMS = (
    "Look at the other terms of the loss, at their weights and signs: they decide what is learnt, "
    "and the cross entropy hardly does"
)
_SHARES = (
    "Where a sample may have several labels, take binary_cross_entropy_with_logits: cross_entropy "
    "is of classes that exclude each other"
)
_TEMPERATURE = (
    "Look for a temperature or a factor between the last module and the loss, and for a sum in "
    "place of a mean"
)
_SCALED = (
    "If a GradScaler scales the loss, give it to track, as monitor.track(step, scaler); else look "
    "for a factor on the loss, a hook, or a sum in place of a mean"
)


class _Bounds(NamedTuple):
    """The least and the most that a mean cross entropy costs, by the size of the logits.

    Attributes:
        least: Where each case is as sure and right as logits of this size can be.
        guess: That of a guess.
        most: Where each is as sure and wrong.
    """

    least: float
    guess: float
    most: float


def odd_losses(evidence: Evidence) -> Iterator[Finding]:
    """Means of cross entropies that are smaller or larger than logits of their size can cost."""
    if not evidence.is_from_the_start:
        return
    for loss, graph in evidence.logged.graphs:
        logits = graph.of_shares
        if logits is not None and not loss.steps[0]:
            yield from _of_shares(loss, logits, evidence)
        logits = graph.logits
        if logits is None or not logits.is_mean or logits.classes < 2 or loss.steps[0]:
            continue
        bounds = _bounds(logits, evidence)
        found = bounds and (
            _of_loss(loss, logits, bounds, evidence) or _of_gradient(loss, logits, evidence)
        )
        if found:
            yield found
            return


def _bounds(logits: Logits, evidence: Evidence) -> _Bounds | None:
    """By the first sizes of what the module returns, which are those of the logits or less."""
    rms, largest = (_first(logits.module, name, evidence) for name in ("OutputRMS", "OutputAbsMax"))
    if rms is None or largest is None:
        return None
    guess = float(np.log(logits.classes))
    # Between the largest and the least logit of one case.
    apart = min(2 * largest, float(np.sqrt(2 * logits.classes)) * rms)
    return _Bounds(float(np.log1p((logits.classes - 1) * np.exp(-apart))), guess, guess + apart)


def _first(module: str, quantity: str, evidence: Evidence) -> float | None:
    """The number of the first step; None of a module that is called several times, or not read."""
    own = [s for s in evidence.of_quantity(quantity) if s.name == module]
    return float(own[0].values[0]) if len(own) == 1 and own[0].steps[0] == 0 else None


def _of_loss(loss: Watched, logits: Logits, bounds: _Bounds, evidence: Evidence) -> Finding | None:
    first = float(loss.values[0])
    shown = f"{loss.quantity!r} begins at {first:.3g}"
    costs = f"a guess among {logits.classes} classes costs {bounds.guess:.3g}"
    if not logits.is_whole and first < -bounds.guess:
        text = f"{shown}, below 0, where {costs}: other terms outweigh the cross entropy in it"
        return _finding(loss, text, bounds, _TERMS)
    if logits.is_whole and logits.is_output and logits.cases >= _MANY:
        times = first * logits.cases
        # One of several forwards of a step may be divided by their number.
        is_of_step = first * max(evidence.forwards_per_step, 1) >= bounds.least / _NEAR
        if bounds.least / _NEAR <= times <= bounds.most * _NEAR and not is_of_step:
            text = f"{shown}, where {costs}: it is divided by the {logits.cases} cases twice"
            return _finding(loss, text, bounds, _TWICE)
    if first > _OUTWEIGHED * bounds.most:
        advice = _TEMPERATURE if logits.is_whole else _TERMS
        part = "" if logits.is_whole else _largest_part(loss, bounds.most, evidence)
        text = (
            f"{shown}, where {costs}: the cross entropy of what {logits.module!r} returns is "
            f"{bounds.most:.3g} of it at most{part}"
        )
        return _finding(loss, text, bounds, advice)
    return None


def _largest_part(loss: Watched, most: float, evidence: Evidence) -> str:
    """The end of a sentence on a loss: the term that costs more than its cross entropy can."""
    begins = {s.quantity: float(s.values[0]) for s in evidence.logged.losses if not s.steps[0]}
    parts = {name: cost for name, cost in begins.items() if most < cost < loss.values[0]}
    name = max(parts, key=lambda name: parts[name], default="")
    return f"; {name!r} begins at {parts[name]:.3g}" if name else ""


def _of_shares(loss: Watched, logits: Logits, evidence: Evidence) -> Iterator[Finding]:
    """A cross entropy that costs more than any shares of classes can that add up to 1."""
    bounds, first = _bounds(logits, evidence), float(loss.values[0])
    if bounds is not None and first > _BEYOND * bounds.most:
        text = (
            f"{loss.quantity!r} begins at {first:.3g}: what {logits.module!r} returns costs "
            f"{bounds.most:.3g} at most with targets that add up to 1 for each sample, and these "
            "add up to more"
        )
        yield _finding(loss, text, bounds, _SHARES)


def _of_gradient(loss: Watched, logits: Logits, evidence: Evidence) -> Finding | None:
    """A gradient of the logits that is larger than any that a mean over all cases has."""
    size = _first(logits.module, "OutputGradRMS", evidence)
    if size is None or not logits.is_output:
        return None
    times = size * logits.cases * float(np.sqrt(logits.classes / 2))
    # A mean of one case alone, where all others are left out of it, has this one.
    if times <= max(_LARGE, float(np.sqrt(logits.cases))):
        return None
    text = (
        f"the gradient of what {logits.module!r} returns is {times:.3g} times the largest that the "
        f"mean of a cross entropy of {logits.cases} cases has"
    )
    found = ODD_LOSS.at(loss, 0, text, "at most 1 of it", module="", value=times)
    return replace(found, advice=_SCALED)


def _finding(loss: Watched, text: str, bounds: _Bounds, advice: str) -> Finding:
    expected = f"{bounds.least:.3g} to {bounds.most:.3g}"
    return replace(ODD_LOSS.at(loss, 0, text, expected, module=""), advice=advice)
