"""Pages of the documentation: their Python, run block by block, and what it prints."""

import contextlib
import io
import linecache
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def run(page: Path) -> list[tuple[str, str]]:
    """Runs a page's blocks in one namespace.

    A block that begins with ``# name.py`` has this file name, which messages tell.

    Returns:
        Of each block what it printed and, of a text block that follows, what the page shows.
    """
    namespace: dict[str, object] = {}
    found = []
    for number, (source, shown) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8"))):
        named = re.match(r"# (\w+\.py)\n", source)
        name = f"<{page.stem} {number}>" if named is None else str(page.with_name(named[1]))
        # As notebooks do it, so that the code has a source.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, name, "exec"), namespace)
        found.append((_trimmed(printed.getvalue()), _trimmed(shown)))
    return found


def _trimmed(text: str) -> str:
    """The text without blanks at its ends and the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
