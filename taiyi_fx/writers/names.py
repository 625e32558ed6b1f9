"""Names of series as tags of dashboards and as names of files."""

from __future__ import annotations

import hashlib
import re

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Series
from taiyi_fx.writers.protocol import RunInfo

EVALUATION = "evaluation"
"""The group of records of evaluation mode."""
EPOCHS = "epochs"
"""The group of summaries of epochs."""
OWN = "taiyi_fx"
"""The group of facts and events of the run itself."""

_HASHED = re.compile(r"-[0-9a-f]{16}\Z")


class Tags:
    """Names of series as dashboards group them: ``quantity/module``; your own numbers as given.

    Different series have different tags. Characters that cannot be printed are escaped as in
    addresses (``%0A``), and so are slashes that would put a series into a group of others.

    Args:
        run: The run that the series are of.
    """

    def __init__(self, run: RunInfo) -> None:
        self._quantities = {entry["quantity"] for entry in run.config}
        self._known: dict[tuple[Series, Mode], str] = {}

    def of(self, series: Series, mode: Mode = "train") -> str:
        """A series' tag; evaluation is a group apart, ``evaluation/quantity/module``."""
        key = series, mode
        if key not in self._known:
            tag = self._tag(*series)
            self._known[key] = tag if mode == "train" else f"{EVALUATION}/{tag}"
        return self._known[key]

    def _tag(self, module: str, quantity: str) -> str:
        if module:
            return f"{escaped(quantity, '%/')}/{escaped(module, '%/')}"
        return escaped(quantity, "%/" if self._is_taken(quantity) else "%")

    def _is_taken(self, name: str) -> bool:
        """True if a name of the user's own begins with a group that is taken."""
        group = name.partition("/")[0]
        parts = group.split(".")
        heads = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
        return group in (EVALUATION, EPOCHS, OWN) or not heads.isdisjoint(self._quantities)


def escaped(text: str, also: str) -> str:
    """A text with unprintable and some further characters as ``%XX`` of their UTF-8."""
    return "".join(_percent(c) if c in also or not c.isprintable() else c for c in text)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def shorter(text: str, longest: int) -> str:
    """A text without its middle where it is too long: the ends of names differ as well."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[: half - 1]}…{text[-half:]}"


def safe(text: str, allowed: str = "A-Za-z0-9_.@+-", longest: int = 100) -> str:
    """A name of allowed characters only, by default one that can be part of any path.

    A text that is one already stays as it is. In another, characters that are not allowed become
    ``_``, the end is cut off where it is too long, and 64 bits of its hash keep names different.

    Args:
        text: Any text.
        allowed: The characters allowed, as a regular expression's set. A name neither begins nor
            ends with a dot in any case.
        longest: The most characters that a name has.
    """
    is_short = 0 < len(text) <= longest
    if is_short and re.fullmatch(rf"(?!\.)[{allowed}]*(?<!\.)", text) and not _HASHED.search(text):
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    cleaned = re.sub(rf"[^{allowed}]", "_", text).lstrip(".")
    return f"{cleaned[: longest - 17]}-{digest}"
