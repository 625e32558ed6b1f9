"""The declaration of a kind of finding, which makes findings of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding, Severity


@dataclass(frozen=True)
class Kind:
    """The fields that all findings of a kind share.

    Attributes:
        name: The name, which is its anchor in the documentation, too.
        severity: How urgent it is.
        advice: What to check or to change.
    """

    name: str
    severity: Severity
    advice: str

    def at(self, series: Watched, i: int, text: str, expected: str = "", **others: Any) -> Finding:
        """A finding that begins at one number of a series.

        Args:
            series: The series that shows it.
            i: The index of the number.
            text: What was seen, in a sentence.
            expected: What the number is compared with.
            **others: Fields of the finding that are not those of the series and of the kind.
        """
        step, value = int(series.steps[i]), float(series.values[i])
        site = series.module, series.quantity, step, value
        found = Finding(self.name, self.severity, *site, expected, text, self.advice)
        return replace(found, **others)
