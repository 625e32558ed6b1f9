"""Values that grow by a like factor from each module of a chain to the next, from the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Watched, in_roles
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.wild_losses import begins_wild, goes_wild

_FEW = 3
"""Modules of a role that are a chain."""
_EACH, _ALL, _MEAN = 1.5, 20.0, 2.5
"""The growth from each to the next, from the first to the last, and the mean one."""
_LIKE = 4.0
"""The largest factor over the smallest: one that is larger is an outlier."""
_BETWEEN = 2.0

GROWING_VALUES = Kind(
    "growing_values",
    "warning",
    "Look at what makes the next module's input larger each time: a product with a matrix whose "
    "rows do not add up to 1 (an adjacency without its degrees), a sum in place of a mean, or "
    "weights that begin too large",
)


def growing_values(evidence: Evidence) -> Iterator[Finding]:
    """Chains of siblings whose first outputs grow from each to the next, with a wild loss."""
    wild = (one for one in evidence.logged.losses if begins_wild(one) or goes_wild(one))
    loss = next(wild, None)
    if not evidence.is_from_the_start or loss is None:
        return
    given = {one.module: float(one.values[0]) for one in evidence.of_quantity("InputRMS")}
    for group in in_roles(evidence.of_quantity("OutputRMS")):
        if len(group) >= _FEW and _grows([float(one.values[0]) for one in group]):
            yield _finding(group, given, loss, evidence)


def _grows(sizes: Sequence[float]) -> bool:
    if min(sizes) <= 0 or sizes[-1] < _ALL * sizes[0]:
        return False
    factors = [b / a for a, b in pairwise(sizes)]
    mean = (sizes[-1] / sizes[0]) ** (1 / len(factors))
    later = factors[1:]  # the first is given the data, which may be of another width
    return min(factors) >= _EACH and max(later) <= _LIKE * min(later) and mean >= _MEAN


def _finding(
    group: Sequence[Watched], given: dict[str, float], loss: Watched, evidence: Evidence
) -> Finding:
    first, second, last = group[0], group[1], group[-1]
    sizes = [float(one.values[0]) for one in (first, last)]
    mean = (sizes[1] / sizes[0]) ** (1 / (len(group) - 1))
    text = (
        f"from {first.module!r} to {last.module!r}, each of {len(group)} alike returns about "
        f"{mean:.2g} times what the one before it does, {sizes[0]:.3g} to {sizes[1]:.3g} at the "
        f"first step, and {loss.quantity!r} begins at {loss.values[0]:.3g}"
    )
    between = [given.get(b.module, np.nan) / float(a.values[0]) for a, b in pairwise(group)]
    if min(between) >= _BETWEEN:
        names = ", ".join(dict.fromkeys(evidence.flow.before_module(second.module)))
        text += "; they grow between these modules" + (f", in {names}" if names else "")
    return GROWING_VALUES.at(second, 0, text, f"near {sizes[0]:.3g}")
