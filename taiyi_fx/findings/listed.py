"""A list of findings that is readable where it is shown."""

from __future__ import annotations

from taiyi_fx.findings.finding import Finding
from taiyi_fx.records.table import as_html


class Findings(list[Finding]):
    """Findings, most urgent first: a list, with a text and a table for notebooks."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no findings"

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        return as_html(
            f"{len(self) or 'no'} finding{'s' * (len(self) != 1)}", _HEAD, [*map(_row, self)]
        )


_HEAD = ("severity", "module", "step", "text", "advice")


def _row(one: Finding) -> tuple[str, ...]:
    more = len(one.consequences)
    text = f"{one.text} (and {more} more)" if more else one.text
    return one.severity, one.module or "the model", str(one.step), text, one.advice
