"""One thing that is wrong in a training, with where it began and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["alert", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("alert", "warning", "note")
"""From the most urgent on."""

_NAMED = 3
"""The consequences that the text of a finding names."""

_PAGE = "docs/reference/findings.md"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: The rule that found it, such as ``"non_finite"``.
        severity: ``"alert"`` if the training is broken by it, ``"warning"`` if it may be, and
            ``"note"`` for what is worth knowing.
        module: The module that it began at; ``""`` for the model as a whole.
        quantity: The quantity that shows it.
        step: The first step of it.
        value: The number there.
        expected: What it is compared with, in words; may be empty.
        text: What was seen, in a sentence.
        advice: What to check or to change.
        consequences: Findings that follow from this one.
        functions: The functions that it is about, of those that the module's output or the loss is
            made by, such as ``"argmax"``.
    """

    kind: str
    severity: Severity
    module: str
    quantity: str
    step: int
    value: float
    expected: str
    text: str
    advice: str
    consequences: tuple[Finding, ...] = field(default=(), repr=False)
    functions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def link(self) -> str:
        """The place in the documentation that explains its kind."""
        return f"{_PAGE}#{self.kind}"

    @property
    def text_with_consequences(self) -> str:
        """The text, and the findings that follow from this one: how many, and the first of them."""
        others = [
            one for one in self.consequences if (one.kind, one.module) != (self.kind, self.module)
        ]
        more = len(others)
        if not more:
            return self.text
        named = [one.kind + (f" of {one.module!r}" if one.module else "") for one in others]
        first = ", ".join(named[:_NAMED]) + (", ..." if more > _NAMED else "")
        verb = "follow" if more > 1 else "follows"
        return f"{self.text} ({more} more {verb} from it: {first})"

    def __str__(self) -> str:
        return f"{self.severity} {self.kind}: {self.text_with_consequences}. {self.advice}"


def with_consequences(every: Iterable[Finding]) -> Iterator[Finding]:
    """Some findings, each with all that follow from it."""
    for one in every:
        yield one
        yield from with_consequences(one.consequences)
