"""Weights that leave the size that they were initialised with, where others keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import Numbers, log10, median, spread
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding, Severity
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_of_player

_FEW = 3
_POWERS = 0.6
"""Powers of ten by which a weight leaves its size: a factor of four."""
_GROWN = 1.5
"""And by which all grow that feed themselves: in a long training they grow severalfold."""
_TIMES = 6.0
"""So many times more than the median of all weights."""
_MEANT = (2.0, 20.0)
"""Times the learning rate of most, by which a head that is new is trained faster on purpose."""
_HALF = 0.3
"""Powers of ten by which a weight shrinks that fades, though its siblings do not."""
_SOON = 300
"""Steps in which all weights come down to half where it is a fault: decay of a usual size takes
thousands."""
_APART = 0.4
"""And by which it parts from these, which is more than six of their deviations, too."""

_USUAL = 1.5
"""The size of what a weight returns for inputs of size 1, up to which it is none that is too
large."""

DRIFT = Kind(
    "drift",
    "alert",
    "Look for a learning rate or a weight decay of its own, an initialisation of another scale, or "
    "code that writes into it",
)
DRIFT_OF_ALL = Kind(
    "drift",
    "alert",
    "Look at the weight decay, its size and its sign, at the learning rate, and at what else "
    "writes into all weights",
)


def drift(evidence: Evidence) -> Iterator[Finding]:
    """Weights that grew or shrank far more than others did; not those that began at zero.

    Nor those that are never trained, which the model's own code writes, as a codebook of averages.
    """
    written = evidence.model.frozen - evidence.parameters.weight_gradients.keys()
    known = (s for s in evidence.parameters.weights.values() if s.module not in written)
    series = [s for s in known if s.values[0] > 1e-6]
    if len(series) < _FEW:
        return
    first, last = log10(np.array([s.values[[0, -1]] for s in series])).T
    moved = last - first
    usual = median(np.abs(moved))
    middle = median(moved)
    if middle <= -_POWERS or middle >= _GROWN:
        yield _of_all(series, middle)
        return
    if middle <= -_HALF and _halve_soon(series):
        yield replace(_of_all(series, middle), severity="warning")
        return
    apart = _apart([s.role for s in series], moved)
    grow_up = _grow_up(np.array([_elements(s, evidence) for s in series]), moved)
    for i in np.argsort(-np.abs(moved)).tolist():
        if grow_up[i] or (moved[i] > 0 and _is_of_usual_size(series[i], evidence)):
            continue
        if abs(moved[i]) >= max(_POWERS, _TIMES * usual):
            is_meant = _has_larger_rate(series[i].module, evidence) or _is_head(series[i], evidence)
            is_meant = is_meant and 0 < moved[i] < _GROWN
            is_meant = is_meant or (moved[i] < 0 and _is_clipped(series[i], evidence))
            severity = "note" if is_meant else "alert"
            yield _of_series(series[i], float(moved[i]), usual, severity, evidence)
        elif apart[i] and moved[i] <= -_HALF:
            severity = "note" if _is_clipped(series[i], evidence) else "warning"
            yield _of_series(series[i], float(moved[i]), usual, severity, evidence)


def _halve_soon(series: list[Watched]) -> bool:
    """True if half of all weights come down to half within a few hundred steps."""
    spans = [float(s.steps[_since(s, -_HALF)] - s.steps[0]) for s in series if _is_halved(s)]
    return len(spans) >= len(series) / 2 and median(spans) <= _SOON


def _is_halved(s: Watched) -> bool:
    return bool(log10(s.values[-1:])[0] - log10(s.values[:1])[0] <= -_HALF)


def _has_larger_rate(module: str, evidence: Evidence) -> bool:
    """True for a group of its own whose rate is several times that of most, as of a new head."""
    rates = sorted(rate for _, rate in evidence.optimizer.groups.values())
    own = evidence.optimizer.groups.get(module)
    return own is not None and _MEANT[0] <= own[1] / max(median(rates), 1e-30) <= _MEANT[1]


def _is_head(s: Watched, evidence: Evidence) -> bool:
    """True for the last weight of the model, or of a part of it, of no rate of its own.

    It makes outputs of the size of what they are to be, as returns of a hundred.
    """
    part, _, _ = s.module.partition(".")
    within = [name for name in evidence.parameters.weights if name.partition(".")[0] == part]
    is_last = within[-1:] == [s.module] and len(within) > 1
    # What no forward calls, as positions whose weight is read, stands behind all that is called.
    called = [name for name in evidence.parameters.weights if name in evidence.called]
    is_last = is_last or (called or [*evidence.parameters.weights])[-1:] == [s.module]
    rates = {rate for _, rate in evidence.optimizer.groups.values()}
    return is_last and len(rates) <= 1


def _is_clipped(s: Watched, evidence: Evidence) -> bool:
    """True for a player's weight that shrinks at once and stays so, as one that is clipped does.

    Its loss is of what it returns, and of no yes or no: a critic's (arXiv 1701.07875).
    """
    is_at_once = bool((s.values[1:] < s.values[0] / 2).all())
    losses = [one for one in evidence.logged.losses if is_of_player(one, evidence)]
    return is_at_once and any(not evidence.logged.of_loss(one).classes for one in losses)


def _elements(s: Watched, evidence: Evidence) -> float:
    """The size of a weight's elements at first; NaN of an unknown number of them."""
    count = evidence.parameters.count_of(s)
    return float(s.values[0] / np.sqrt(count)) if count else np.nan


def _is_of_usual_size(s: Watched, evidence: Evidence) -> bool:
    """True for a weight that is given so few numbers that it returns what has their size.

    As that of an LSTM of two inputs, whose elements begin by the number of its hidden units.
    """
    own, count = evidence.model.attributes.get(s.module), evidence.parameters.count_of(s)
    numbers = {} if own is None else own.numbers
    given = numbers.get("input_size" if "weight_ih_l0" in s.quantity else "in_features")
    if not isinstance(given, int) or not count:
        return False
    return float(s.values[-1]) * np.sqrt(given / count) <= _USUAL


def _grow_up(first: Numbers, moved: Numbers) -> NDArray[np.bool_]:
    """True for each that began smaller than others, on purpose, and is nearer to them now."""
    usual = median(first[np.isfinite(first)])
    now = first * np.power(10.0, moved)
    return (moved > 0) & (now / usual < usual / first)


def _of_all(series: list[Watched], middle: float) -> Finding:
    site = min(series, key=lambda s: int(s.steps[_since(s, middle / 2)]))
    word = "grow" if middle > 0 else "shrink"
    text = f"half of all weights {word} by a factor of {np.power(10.0, abs(middle)):.3g} or more"
    i = _since(site, middle / 2)
    others = {"module": "", "value": float(np.power(10.0, middle))}
    return DRIFT_OF_ALL.at(site, i, text, "near their first size", **others)


def _since(s: Watched, powers: float) -> int:
    """The index at which a weight has moved so far; the last, if it never has."""
    moved = (log10(s.values) - log10(s.values[:1])) * np.sign(powers)
    reached = np.flatnonzero(moved >= abs(powers))
    return int(reached[0]) if len(reached) else len(s.values) - 1


def _apart(roles: list[str], moved: Numbers) -> NDArray[np.bool_]:
    """A mask of the weights that change otherwise than their siblings do."""
    found = np.zeros(len(moved), bool)
    for role in set(roles):
        of_role = np.array([other == role for other in roles])
        if of_role.sum() > _FEW:
            far = np.abs(moved - median(moved[of_role]))
            found |= of_role & (far > max(_APART, _TIMES * spread(moved[of_role])))
    return found


def _of_series(
    s: Watched, moved: float, usual: float, severity: Severity, evidence: Evidence
) -> Finding:
    change = np.abs(log10(s.values) - log10(s.values[:1]))
    i = int(np.flatnonzero(change >= min(_POWERS, abs(moved)) / 2)[0])
    first, last = float(s.values[0]), float(s.values[-1])
    text = (
        f"from step {s.steps[i]} on {s.quantity} of {s.module!r} goes from {first:.3g} to "
        f"{last:.3g}, where that of others keeps its size"
    )
    decay = evidence.optimizer.decays.get(s.module, 0.0)
    if moved < 0 and decay > 0:
        text += f"; the weight decay of its group is {decay:.3g}"
    expected = f"near {first:.3g}, as others change by a factor of {np.power(10.0, usual):.3g}"
    return DRIFT.at(s, i, text, expected, value=last, severity=severity)
