"""Gradients over depth: they vanish or explode on their way back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import log10, median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_STEPS = 8
_DEEP = 5
"""Modules below which there is no depth to speak of."""
_FEW = 3
_FACTOR = 10**2.5
"""Norms of usual values stay below, as their epsilon bounds it."""
_ABOVE = 30.0
"""And so many times all gradients nearer to the loss."""
_POWERS = 3.5
"""Powers of ten between the first module's gradient and the last one's."""

_MOST = 0.7
"""Of these powers, what one place makes where there is no steady slope."""

_LEARNT = 0.7
"""Of a loss at first: what has come down to it has learnt."""
_ADVICE = (
    "Use residual connections, normalization, another activation, or an initialisation that keeps "
    "the scale of gradients"
)
_AT_ONE_PLACE = (
    "Look at what lies between these two, and whether another term of the loss, or another branch, "
    "brings its gradient there"
)
VANISHING = Kind("vanishing_gradient", "warning", _ADVICE)
EXPLODING = Kind("exploding_gradient", "warning", _ADVICE)
JUMP = Kind(
    "gradient_jump",
    "alert",
    "Look at what lies between its output and the one before it: the backward of a function of "
    "your own, a division by a small number, or a norm of nearly constant values",
)


def jumps(evidence: Evidence) -> Iterator[Finding]:
    """Modules that pass a gradient back hundreds of times as large as the one they were given."""
    gradients = [*evidence.of_quantity("OutputGradRMS")][::-1]
    sizes = {s.module: _beginning(s) for s in evidence.of_quantity("OutputRMS")}
    largest = 0.0
    for given, before, (one, _) in zip(gradients, gradients[1:], evidence.gains, strict=False):
        largest = max(largest, _beginning(given))
        if given.call != before.call and given.name != before.name:
            continue  # another pass through the model: neither is behind the other
        first = one.values[:_STEPS]
        # Beside a branch, a residual stream brings gradients from elsewhere: not so large ones.
        is_new = len(first) >= _FEW and _beginning(given) * median(first) > _ABOVE * largest
        # Of small values, gradients are as much larger: what a change by a percent does counts.
        size = sizes.get(given.module, 1.0)
        scale = sizes.get(before.module, 1.0) / size if size else 1.0
        is_large = is_new and median(first) * min(scale, 1.0) >= _FACTOR
        if is_large and evidence.is_behind(given.module, before.module):  # and not beside it
            text = f"from step {one.steps[0]} on {one.title} is {first[0]:.3g}"
            yield JUMP.at(one, 0, text, "between 0.01 and 100")


def _beginning(one: Watched) -> float:
    return median(one.values[:_STEPS])


def chains(evidence: Evidence) -> Iterator[Finding]:
    """Gradients that shrink or grow by a steady factor from module to module."""
    every = evidence.of_quantity("OutputGradRMS", "OutputGradSndNorm")
    series = [s for s in every if len(s.values) >= _STEPS and (s.values > 0).all()]
    if len(series) < _DEEP:
        return
    sizes = np.array([median(log10(s.last_half)) for s in series])
    slope, _ = np.polyfit(np.arange(len(sizes)), sizes, 1)
    fitted, powers = float(slope * (len(sizes) - 1)), float(sizes[-1] - sizes[0])
    if min(fitted * np.sign(powers), abs(powers)) < _POWERS:
        return
    first, last = series[0], series[-1]
    if powers > 0 and evidence.parameters.has_layer_scales:
        return
    kind, word = (VANISHING, "shrink") if powers > 0 else (EXPLODING, "grow")
    text = (
        f"gradients {word} by a factor of {np.power(10.0, abs(powers)):.1e} on their way from "
        f"{last.module!r} back to {first.module!r}"
    )
    expected = f"near {float(last.values[-1]):.3g}, as of {last.module!r}"
    changes = np.diff(sizes) * np.sign(powers)
    i = int(changes.argmax())
    if changes[i] < _MOST * abs(powers):
        value = float(first.values[-1])
        severity = "note" if kind is VANISHING and _learns(evidence) else kind.severity
        yield kind.at(first, 0, text, expected, value=value, severity=severity)
        return
    site, behind = series[i], series[i + 1]
    text += (
        f", most of it, {np.power(10.0, changes[i]):.1e}, at one place: from "
        f"{behind.module!r} to {site.module!r}"
    )
    value = float(site.values[-1])
    yield kind.at(site, 0, text, expected, value=value, advice=_AT_ONE_PLACE)


def _learns(evidence: Evidence) -> bool:
    """True if a loss has come down, for which the gradients that there are were enough."""
    losses = (one.values for one in evidence.logged.losses if len(one.values) >= 2 * _STEPS)
    ends = [(median(values[:_STEPS]), median(values[-_STEPS:])) for values in losses]
    return any(last < _LEARNT * first for first, last in ends if first > 0)
