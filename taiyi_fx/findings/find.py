"""All rules, applied to what is known; causes first, with what follows from them beneath."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from taiyi_fx.findings.depth import chains
from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import SEVERITIES, Finding
from taiyi_fx.findings.inputs import wild_inputs
from taiyi_fx.findings.learning import missing_gradients, no_update, zero_gradients
from taiyi_fx.findings.loss import divergence, plateau
from taiyi_fx.findings.non_finite import first_step, non_finite
from taiyi_fx.findings.shares import shares_of_trouble
from taiyi_fx.findings.siblings import outliers
from taiyi_fx.findings.steps import step_sizes
from taiyi_fx.findings.trends import growth

Rule = Callable[[Evidence], Iterator[Finding]]

# From causes to consequences: of findings that are as urgent, that of an earlier rule comes first.
RULES: tuple[Rule, ...] = (
    wild_inputs,
    no_update,
    step_sizes,
    shares_of_trouble,
    zero_gradients,
    missing_gradients,
    outliers,
    growth,
    chains,
    divergence,
    plateau,
)
"""The rules for numbers that are finite. Those after the first NaN or Inf are not looked at."""


def find(evidence: Evidence) -> list[Finding]:
    """What is wrong, most urgent first; what follows from a finding is among its consequences."""
    step = first_step(evidence)
    known = evidence if step is None else evidence.before(step)
    every = [*non_finite(evidence), *(found for rule in RULES for found in rule(known))]
    return _folded(every)


def _folded(every: list[Finding]) -> list[Finding]:
    """One finding for each cause: the first of each kind, and all others beneath it."""
    by_kind: dict[str, list[Finding]] = {}
    for found in every:
        by_kind.setdefault(found.kind, []).append(found)
    causes = [
        dataclasses.replace(first, consequences=tuple(rest)) for first, *rest in by_kind.values()
    ]
    return sorted(causes, key=lambda found: SEVERITIES.index(found.severity))
