"""Rows of texts as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_SHOWN = 200
"""Rows of a table in a notebook."""


def as_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under their head, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, tuple("-" * w for w in widths), *rows]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in lines)


def as_html(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under their head as HTML, all texts escaped; of many the first 200."""
    lines = [_line("th", head), *(_line("td", row) for row in rows[:_SHOWN])]
    more = f"<p>... and {len(rows) - _SHOWN} more</p>" if len(rows) > _SHOWN else ""
    table = f"<table>{''.join(lines)}</table>" if rows else ""
    return f"<p>{html.escape(title)}</p>{table}{more}"


def _line(cell: str, texts: Iterable[str]) -> str:
    cells = "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in texts)
    return f"<tr>{cells}</tr>"
