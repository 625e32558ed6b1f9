"""Modules of one role that should be alike: the one whose numbers are of another size.

A wild layer makes all behind it wild, so that it is no outlier among them. The factor by which a
module changes what it is given stays its own: those factors are compared, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.chain import InRole, made, passed_back
from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import log10, spreads
from taiyi_fx.findings.watched import Watched

_FEW = 3
"""Siblings below which none is the odd one out: of sizes. Of factors two are enough."""
_FACTOR = 1.3
"""Powers of ten by which an outlier differs from the median of its siblings: a factor of 20."""
_BROKEN = 2.5
"""And so many that nothing can be learned through it."""
_SIGMAS = 6.0
_LITTLE = 0.4
_MANY_SIGMAS = 20.0
"""Where siblings are all but equal, as what a dropout passes, a factor of 2.5 is one."""
_SHARE = 0.6
"""The share of the steps at which it does."""
OUTLIER = Kind(
    "outlier",
    "warning",
    "Look at how this module is initialised, and at what scales what it is given",
)


class _Bounds(NamedTuple):
    """The bounds beyond which one is odd.

    Attributes:
        few: Siblings below which none is.
        of_equals: Powers of ten that are enough among siblings that are all but equal.
    """

    few: int = _FEW
    of_equals: float = np.inf


def outliers(evidence: Evidence) -> Iterator[Finding]:
    """The lasting outliers among modules of one role, in the order of causes.

    Weights make outputs, and those make gradients.
    """
    outputs = [*evidence.of_quantity("OutputRMS")]
    # Gradients are made from the last module to the first.
    gradients = [*evidence.of_quantity("OutputGradRMS")][::-1]
    of_weights = [*evidence.of_quantity("WeightGradNorm")][::-1]
    inputs = [*evidence.of_quantity("InputRMS")]
    every = (
        (_in_roles(evidence.of_quantity("WeightNorm")), _Bounds()),
        (made(outputs), _Bounds(few=_FEW - 1, of_equals=_LITTLE)),
        (made(inputs), _Bounds(few=_FEW - 1)),
        (_in_roles(outputs), _Bounds()),
        (passed_back(gradients), _Bounds(few=_FEW - 1)),
        (_in_roles(gradients), _Bounds()),
        (_in_roles(of_weights), _Bounds()),
        (_in_roles(evidence.of_quantity("UpdateRatio.weight")), _Bounds()),
    )
    told = set[str]()
    for found in (one for series, bounds in every for one in _among(evidence, series, bounds)):
        if found.module not in told:
            told.add(found.module)
            yield found


def _in_roles(series: Iterable[Watched]) -> Iterator[InRole]:
    return ((one, one.role) for one in series)


def _among(evidence: Evidence, every: Iterable[InRole], bounds: _Bounds) -> Iterator[Finding]:
    groups: dict[Hashable, list[Watched]] = {}
    place: dict[str, int] = {}
    for one, role in every:
        # Names such as "0" and "1" say nothing of a module's role.
        kind = evidence.kinds[one.module] if one.role.rpartition(".")[2] == "*" else None
        groups.setdefault((role, kind), []).append(one)
        place.setdefault(one.module, len(place))
    found = [one for group in groups.values() for one in _of_group(group, bounds)]
    yield from sorted(found, key=lambda one: place[one.module])


def _of_group(group: list[Watched], bounds: _Bounds) -> Iterator[Finding]:
    group = [one for one in group if len(one.values) and (one.values != 0).all()]
    if len(group) <= bounds.few:
        return
    common = sorted(set.intersection(*(set(s.steps.tolist()) for s in group)))
    if not common:
        return
    table = np.stack([log10(s.values[np.searchsorted(s.steps, common)]) for s in group])
    middle = np.median(table, axis=0)
    distances, width = np.abs(table - middle), spreads(table)
    is_far = distances > np.maximum(_FACTOR, _SIGMAS * width)
    if len(group) > _FEW:
        is_far |= distances > np.maximum(bounds.of_equals, _MANY_SIGMAS * width)
    for site, so, distance in zip(group, is_far, table - middle, strict=True):
        if so.mean() < _SHARE or not so[-1]:
            continue
        i = int(np.searchsorted(site.steps, common[int(np.flatnonzero(so)[0])]))
        factor, value = np.power(10.0, np.median(distance[so])), float(site.values[i])
        shown = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
        text = (
            f"from step {site.steps[i]} on {site.quantity} of {site.module!r} is {value:.3g}, {shown} the "
            f"median of its {len(group) - 1} siblings"
        )
        severity = "alert" if abs(np.log10(factor)) > _BROKEN else "warning"
        yield OUTLIER.at(
            site, i, text, f"{value / factor:.3g}, as of its siblings", severity=severity
        )
