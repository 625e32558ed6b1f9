"""Pages of the documentation whose output is shown: their Python, run, and what it prints."""

import contextlib
import importlib.util
import io
import linecache
import re
import sys
import types
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_STEP = re.compile(
    r'<!-- skip: (start|next|end)(?: if\(find_spec\("(\w+)"\).*?)? -->'
    r"|```python\n(.*?)```(?:\s+```text\n(.*?)```)?",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def runnable_blocks(text):
    """Blocks of Python, each with what is shown as printed, but for those that lack a package."""
    skipping = ""
    for action, package, code, shown in _STEP.findall(text):
        if action:
            skipping = action if package and importlib.util.find_spec(package) is None else ""
        elif not skipping:
            yield code, shown
        elif skipping == "next":
            skipping = ""


def run(page):
    """Runs a page's blocks in one module; of each what it printed, and what the page shows.

    A block that begins with ``# name.py`` has this file name, which messages quote.
    """
    module = types.ModuleType("page")
    sys.modules["page"] = module  # where torch.fx and torch.compile look up the page's functions
    for number, (code, shown) in enumerate(runnable_blocks(page.read_text("utf-8"))):
        named = re.match(r"# (\w+\.py)\n", code)
        name = f"<{page.stem} {number}>" if named is None else str(page.with_name(named[1]))
        # As notebooks do it, so that the code has a source.
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), vars(module))
        yield _trimmed(printed.getvalue()), _trimmed(shown)


def without_numbers(text):
    """A text with each number as 0, which it is compared by; and the numbers."""
    return _NUMBER.sub("0", text), [float(found) for found in _NUMBER.findall(text)]


def _trimmed(text):
    """The text without blanks at the ends of lines, and empty lines at its own."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
