"""A list of findings that is readable where it is shown."""

from __future__ import annotations

import html

from taiyi_fx.findings.finding import Finding


class Findings(list[Finding]):
    """Findings, most urgent first: a list, with a text and a table for notebooks."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no findings"

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        if not self:
            return "<p>no findings</p>"
        head = "".join(
            f"<th>{name}</th>" for name in ("severity", "module", "step", "text", "advice")
        )
        return f"<table><tr>{head}</tr>{''.join(map(_row, self))}</table>"


def _row(one: Finding) -> str:
    more = len(one.consequences)
    text = f"{one.text} ({more} more follow from it)" if more else one.text
    cells = (one.severity, one.module or "the model", str(one.step), text, one.advice)
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
