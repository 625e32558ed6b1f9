"""Layers of which all units compute the same, throughout the model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.values.ranks import RANK_COLLAPSE

_ONE = 1e-4
"""Above one direction: rounding."""
_FEWEST = 3
"""Layers that do not all have one direction by chance."""
_WIDE = 4
"""Features of a layer that could have several."""
_ROWS = 8
"""Rows that could differ in several ways: two rows differ in one."""


def same_units(evidence: Evidence) -> Iterator[Finding]:
    """Linear layers that all begin with one direction, as those of one number for a weight do.

    The gradient of such units is the same, and they stay alike. Siblings with several directions,
    beside which one is odd, are not needed. But all linear layers have to be read, and the first
    to be given more than a number: else what comes in may vary along one direction itself.
    """
    known = [
        (s, evidence.attributes.get(s.name)) for s in evidence.of_quantity("ParticipationRatio")
    ]
    layers = [s for s, own in known if own is not None and min(own.features) >= _WIDE]
    if not evidence.is_from_the_start or len(layers) < _FEWEST:
        return
    widths = {n: min(own.features) for n, own in evidence.attributes.items() if any(own.features)}
    needed = {next(iter(widths)), *(name for name, width in widths.items() if width >= _WIDE)}
    if not needed <= {s.name for s in layers}:
        return
    if all(s.values[0] <= 1 + _ONE and _rows(s.module, evidence) >= _ROWS for s in layers):
        text = (
            f"the outputs of {names_of(layers)} vary along one direction each, as do those of all"
        )
        text += " linear layers: the units of each compute the same"
        yield RANK_COLLAPSE.at(layers[0], 0, text, "several directions", module="")


def _rows(module: str, evidence: Evidence) -> int:
    """The number of rows that a module is given; 0 if it is not known."""
    sizes = evidence.shape_before(module).split("×")[:-1]
    return math.prod(map(int, sizes)) if sizes and all(n.isdecimal() for n in sizes) else 0
