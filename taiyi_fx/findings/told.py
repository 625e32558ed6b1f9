"""The findings of a monitor, which knows the model, its optimizer and the loss beside numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.finding import Finding


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


def with_told(shown: Sequence[Finding], told: Sequence[Told]) -> list[Finding]:
    """The findings of monitors, and those in numbers of steps that one of them has not looked at.

    Args:
        shown: The findings in numbers.
        told: What the monitors of a run found, one of each part.
    """
    every = [found for each in told for found in each.findings]
    known = {_name(one) for one in _with_consequences(every)}
    more = [one for one in shown if _name(one) not in known and not _is_judged(one, told)]
    return by_severity([*every, *more])


def _name(one: Finding) -> tuple[str, str]:
    return one.kind, one.module


def _is_judged(one: Finding, told: Sequence[Told]) -> bool:
    """True if every monitor has looked at its step."""
    return bool(told) and all(each.covers(one.step) for each in told)


def _with_consequences(every: Sequence[Finding]) -> Iterator[Finding]:
    for one in every:
        yield one
        yield from _with_consequences(one.consequences)
