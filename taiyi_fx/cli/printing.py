"""Text for a terminal: control characters, and characters that it cannot show, are escaped."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from taiyi_fx.records.table import as_table


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints lines, by default to the standard output; escapes characters it cannot show."""
    to = stream or sys.stdout
    encoding = to.encoding or "utf-8"
    shown = "\n".join(map(printable, text.split("\n")))
    print(shown.encode(encoding, "backslashreplace").decode(encoding), file=to)


def as_json(value: object) -> str:
    """A value as JSON, which has no NaN and no Inf: see `json_number`."""
    return json.dumps(value, indent=2, allow_nan=False)


def printable(text: str) -> str:
    r"""A text on one line; ``\x1b`` and the like for what is no character to show."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows under their head, in columns, ready for a terminal."""
    shown = [tuple(map(printable, row)) for row in rows]
    return "\n".join(line.rstrip() for line in as_table(head, shown).split("\n"))


def more(count: int, limit: int) -> str:
    """A line on the rest of a list that was cut at a limit; empty if nothing was."""
    return f"\n... and {count - limit:,} more: --limit {count}" if count > limit else ""


def headed(entries: dict[str, str]) -> str:
    """Lines of a word and its explanation, in two columns."""
    width = max(map(len, entries))
    return "\n".join(f"{word:{width}}  {printable(text)}" for word, text in entries.items())


def many(count: int, noun: str) -> str:
    """A count and its noun: ``1 step``, ``2 steps``; of two forms the one that fits."""
    one, _, more = noun.partition("|")
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"
