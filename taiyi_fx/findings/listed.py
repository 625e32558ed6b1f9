"""A list of findings that is readable where it is shown."""

from __future__ import annotations

from collections.abc import Iterable

from taiyi_fx.findings.finding import Finding
from taiyi_fx.records.table import as_html


class Findings(list[Finding]):
    """Findings, most urgent first: a list, with a text and a table for notebooks.

    Attributes:
        looked_at: What was looked at, in words; empty if it is not known.
    """

    def __init__(self, found: Iterable[Finding] = (), *, looked_at: str = "") -> None:
        super().__init__(found)
        self.looked_at = looked_at

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or self._none()

    def _none(self) -> str:
        return f"no findings in {self.looked_at}; {_ELSE}" if self.looked_at else "no findings"

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        title = f"{len(self)} finding{'s' * (len(self) != 1)}" if self else self._none()
        return as_html(title, _HEAD, [*map(_row, self)])


_ELSE = "if something is wrong all the same: docs/how-to/findings.md#when-nothing-is-found"
_HEAD = ("severity", "kind", "module", "step", "text", "advice")


def _row(one: Finding) -> tuple[str, ...]:
    module, text = one.module or "the model", one.text_with_consequences
    return one.severity, one.kind, module, str(one.step), text, one.advice
