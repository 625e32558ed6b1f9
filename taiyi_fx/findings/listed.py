"""A list of findings that is readable where it is shown."""

from __future__ import annotations

from collections.abc import Iterable

from taiyi_fx.findings.finding import Finding
from taiyi_fx.records.table import as_html


class Findings(list[Finding]):
    """Findings, most urgent first: a list, with a text and a table for notebooks.

    Attributes:
        looked_at: What was looked at, in words; empty if it is not known.
        remark: What could not be looked at, and why; empty if that is not known.
    """

    def __init__(
        self, found: Iterable[Finding] = (), *, looked_at: str = "", remark: str = ""
    ) -> None:
        super().__init__(found)
        self.looked_at = looked_at
        self.remark = remark

    def __repr__(self) -> str:
        if not self:
            return self._none()
        return "\n".join([*map(str, self), *([self.remark] if self.remark else [])])

    def _none(self) -> str:
        if not self.looked_at:
            return self.remark or "no findings"
        return f"no findings in {self.looked_at}; {self.remark or _ELSE}"

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        title = f"{len(self)} finding{'s' * (len(self) != 1)}" if self else self._none()
        title += f"; {self.remark}" if self and self.remark else ""
        return as_html(title, _HEAD, [*map(_row, self)])


_ELSE = (
    "if something is wrong all the same, taiyi_fx.step_check tries a step of it; more is in "
    "docs/how-to/findings.md#when-nothing-is-found"
)
_HEAD = ("severity", "kind", "module", "step", "text", "advice")


def _row(one: Finding) -> tuple[str, ...]:
    module, text = one.module or "the model", one.text_with_consequences
    return one.severity, one.kind, module, str(one.step), text, one.advice
