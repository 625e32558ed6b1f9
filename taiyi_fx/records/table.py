"""Rows of texts as a table."""

from __future__ import annotations

from collections.abc import Sequence


def as_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under their head, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, tuple("-" * w for w in widths), *rows]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in lines)
