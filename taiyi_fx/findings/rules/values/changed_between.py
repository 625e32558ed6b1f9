"""Values that change between two modules from some step on, which handed them on before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SAME, _OTHER = 0.01, 3.0
"""How near to 1 the factor of a tensor over itself is in any format, and one that is another."""

CHANGED_BETWEEN = Kind(
    "changed_between",
    "warning",
    "Look at what the model's forward does between the two from this step on: a schedule, a mask, "
    "a scale or a condition on the step",
)


def changed_between(evidence: Evidence) -> Iterator[Finding]:
    """Modules that were given what the one before returns, and are given something else since."""
    given = evidence.by_module("InputRMS")
    for before, one in pairwise(evidence.of_quantity("OutputRMS")):
        if one.module in given and before.call == one.call:
            yield from _of_two(before, given[one.module], evidence)


def _of_two(before: Watched, given: Watched, evidence: Evidence) -> Iterator[Finding]:
    given, returned = at_common_steps([given, before])
    known = returned.values > 0
    given, factors = given.at(known), given.values[known] / returned.values[known]
    is_same = np.abs(factors - 1) < _SAME
    changed = np.flatnonzero(~is_same)
    if len(factors) < STEPS or not len(changed) or changed[0] < STEPS:
        return
    i = int(changed[0])
    if ((factors[i:] >= _OTHER) | (factors[i:] <= 1 / _OTHER)).all():
        text = (
            f"from step {given.steps[i]} on {given.module!r} is given {factors[i]:.3g} times what "
            f"{before.module!r} returns, where it was given just that before"
        )
        text += evidence.made_by(given.module)
        yield CHANGED_BETWEEN.at(given, i, text, f"{returned.values[known][i]:.3g}")
