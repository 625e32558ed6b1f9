"""Gradients of weights that are not those that their layers make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Watched

_FEW = 3
"""Numbers below which nothing is said."""
_AGAINST = -0.5
_APART = 0.9
_FACTOR = 2.5
_MOST = 0.7
_GROWN = 1.5
_ALONE = 0.99

CHANGED = Kind(
    "changed_gradient",
    "alert",
    "Something changes it after backward: look for hooks (register_hook), an autograd.Function of "
    "your own, and code that writes into .grad",
)
NOT_CLEARED = Kind(
    "gradients_not_cleared",
    "alert",
    "Call optimizer.zero_grad() once for each step, before its backward",
)


def changed_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Weights whose gradient is turned round or of another size; or all, of several steps."""
    every = [s for s in evidence.of_quantity("WeightGradAgreement") if len(s.values) >= _FEW]
    # A weight that is used twice has two gradients, of which each use makes one.
    calls = Counter(s.module.partition("@")[0] for s in every)
    cosines = [s for s in every if calls[s.module.partition("@")[0]] == 1]
    sizes = {s.module: s for s in evidence.of_quantity("WeightGradExcess")}
    excess = {s.module: _usual(sizes[s.module]) for s in cosines if s.module in sizes}
    summed = [s for s in cosines if _is_summed(s, sizes.get(s.module))]
    is_known = len(cosines) >= _FEW or any(_begins_alone(s, sizes[s.module]) for s in summed)
    if is_known and len(summed) >= _MOST * len(cosines):
        text = "the gradients of most weights are not those of the last backward alone"
        yield NOT_CLEARED.at(summed[0], 0, text, "a cosine of 1", module="")
        return
    common = _median(excess.values())
    for one in cosines:
        severity, factor = "alert", excess.get(one.module, np.nan) / common
        if _usual(one) < _AGAINST:
            text = f"the gradient of {one.module!r} points against the one that its layer makes"
        elif _usual(one) > _APART and not 1 / _FACTOR < factor < _FACTOR and np.isfinite(factor):
            text = (
                f"the gradient of {one.module!r} is {factor:.3g} times the one that its layer makes"
            )
        elif _usual(one) < _APART and not _is_shared(one.module, evidence):
            text = f"the gradient of {one.module!r} is not the one that its layer makes"
            severity = "warning"  # a function may use the weight once more
        else:
            continue
        yield CHANGED.at(one, 0, text, "a cosine of 1, and a factor of 1", severity=severity)


def _is_shared(module: str, evidence: Evidence) -> bool:
    """True for a weight of two modules: it has the same norms twice."""
    own = evidence.weights.get(module)
    others = (s for s in evidence.weights.values() if s.module != module)
    return own is None or any(np.array_equal(own.values, s.values) for s in others)


def _is_summed(cosine: Watched, size: Watched | None) -> bool:
    """True if a gradient has others in it, or grows from that of one backward to that of many."""
    if size is None or len(size.values) < _FEW:
        return False
    is_mixed = _usual(cosine) < _APART and _usual(size) > 1
    return is_mixed or bool(size.values[0] < _GROWN < median(size.last_half))


def _begins_alone(cosine: Watched, size: Watched) -> bool:
    """True if the first gradient is the layer's own, as nothing came before it."""
    return bool(min(cosine.values[0], size.values[0], 1 / max(size.values[0], 1e-30)) > _ALONE)


def _usual(one: Watched) -> float:
    return _median(one.values, _FEW)


def _median(values: Iterable[float], fewest: int = 1) -> float:
    """The median of finite numbers; NaN of too few."""
    finite = [x for x in values if np.isfinite(x)]
    return median(finite) if len(finite) >= fewest else np.nan
