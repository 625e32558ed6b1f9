"""The findings of a monitor, which knows the model, its optimizer and the loss beside numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.find import find
from taiyi_fx.findings.finding import Finding, with_consequences
from taiyi_fx.findings.listed import Findings


class Told(NamedTuple):
    """The findings of one monitor.

    Attributes:
        first: The first step that it has looked at.
        last: The last one.
        findings: All that it found in them when it last looked.
    """

    first: int
    last: int
    findings: Sequence[Finding]

    def covers(self, step: int) -> bool:
        """True if it has looked at a step."""
        return self.first <= step <= self.last


def find_beside(told: Sequence[Told], evidence: Evidence) -> Findings:
    """The findings of monitors, and those in numbers of steps that one of them has not looked at.

    Args:
        told: What the monitors of a run found, one of each part.
        evidence: The numbers.
    """
    every = [found for each in told for found in each.findings]
    if not _have_seen(told, evidence.first_step, evidence.last_step):
        known = {_name(one) for one in with_consequences(every)}
        shown = [one for one in find(evidence) if not _have_seen(told, one.step)]
        every += [one for one in shown if _name(one) not in known]
    return Findings(by_severity(every), looked_at=evidence.extent)


def _name(one: Finding) -> tuple[str, str]:
    return one.kind, one.module


def _have_seen(told: Sequence[Told], *steps: int) -> bool:
    """True if every monitor has looked at some steps."""
    return bool(told) and all(each.covers(step) for each in told for step in steps)
