"""Consequences put beneath their cause: a finding that follows from another is told with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.leads_to import EDGES, Edge

_LEAST_TOLD = "plateau"
"""A sign of nearly anything that is wrong early on, which says less than all else."""
_EARLY = 0.2
"""The share of the training until then."""
_OF_ANYTHING = frozenset(
    "plateau faded_output evaluation_gap overfitting undefined_evaluation undefined_metric "
    "dropout_in_evaluation parted_copies own_rule rule_failed".split()
)
"""Kinds that do not make a loss stay where it is: its like, and what evaluation alone meets."""


def follow_ups_beneath(every: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """The findings, without those that follow from another, which has them beneath.

    A cause is as urgent as what follows from it, and stands where the first of them would.
    """
    left = [*every]
    for edge in EDGES:
        for kind in edge.causes.split():
            for cause in [one for one in left if one.kind == kind]:
                left = _led_by(cause, left, edge, evidence)
    early = _EARLY * evidence.last_step
    reasons = (
        one
        for one in left
        if one.kind not in _OF_ANYTHING and one.severity != "note" and one.step <= early
    )
    for cause in [*reasons][:1]:
        left = _led_by(cause, left, Edge(cause.kind, _LEAST_TOLD), evidence)
    return left


def _led_by(cause: Finding, every: list[Finding], edge: Edge, evidence: Evidence) -> list[Finding]:
    kinds = edge.effects.split()
    effects = [one for one in every if one.kind in kinds and edge.follows(cause, one, evidence)]
    if not effects:
        return every
    beneath = (
        part for one in effects for part in (replace(one, consequences=()), *one.consequences)
    )
    worst = by_severity([cause, *effects])[0].severity
    first = min(every.index(one) for one in (cause, *effects))
    led = replace(cause, severity=worst, consequences=(*cause.consequences, *beneath))
    before, after = every[:first], every[first:]
    return [*before, led, *(one for one in after if one is not cause and one not in effects)]
