"""Modules of one role that should be alike: the one whose numbers are of another size."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import log10, spreads
from taiyi_fx.findings.watched import Watched

_FEW = 3
"""Siblings below which none is the odd one out."""
_FACTOR = 1.3
"""Powers of ten by which an outlier differs from the median of its siblings: a factor of 20."""
_SIGMAS = 6.0
_SHARE = 0.6
"""The share of the steps at which it does."""
_SIZES = ("WeightNorm", "OutputRMS", "OutputGradRMS", "WeightGradNorm")
"""In the order of causes: weights make outputs, and those make gradients."""

OUTLIER = Kind(
    "outlier",
    "warning",
    "Look at how this module is initialised, and at what scales what it is given",
)


def outliers(evidence: Evidence) -> Iterator[Finding]:
    """The lasting outliers among modules of one role."""
    kinds = evidence.kinds
    for quantity in _SIZES:
        groups: dict[Hashable, list[Watched]] = {}
        for one in evidence.of_quantity(quantity):
            # Names such as "0" and "1" say nothing of a module's role.
            kind = kinds[one.module] if one.role.rpartition(".")[2] == "*" else None
            groups.setdefault((one.role, kind), []).append(one)
        found = [one for group in groups.values() for one in _of_group(group)]
        # Gradients are made from the last module to the first.
        sign = -1 if "Grad" in quantity else 1
        yield from sorted(found, key=lambda one: sign * evidence.modules[one.module])


def _of_group(group: list[Watched]) -> Iterator[Finding]:
    if len(group) < _FEW + 1:
        return
    common = sorted(set.intersection(*(set(s.steps.tolist()) for s in group)))
    if not common:
        return
    table = np.stack([log10(s.values[np.searchsorted(s.steps, common)]) for s in group])
    middle = np.median(table, axis=0)
    is_far = np.abs(table - middle) > np.maximum(_FACTOR, _SIGMAS * spreads(table))
    for site, so, distance in zip(group, is_far, table - middle, strict=True):
        if so.mean() < _SHARE or not so[-1]:
            continue
        i = int(np.searchsorted(site.steps, common[int(np.flatnonzero(so)[0])]))
        factor, value = np.power(10.0, np.median(distance[so])), float(site.values[i])
        shown = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
        text = (
            f"step {site.steps[i]}: {site.quantity} of {site.module!r} is {value:.3g}, {shown} the "
            f"median of its {len(group) - 1} siblings, and stays so"
        )
        yield OUTLIER.at(site, i, text, f"{value / factor:.3g}, as of its siblings")
