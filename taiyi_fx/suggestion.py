"""A hint for a word that is not known: the nearest known one, or the first few."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_WRAPPERS = ("module.", "_orig_mod.", "model.")


def suggestion(word: str, known: Sequence[str]) -> str:
    """A sentence that names the known word that was probably meant, or lists some."""
    for name in known:
        if any(f"{w}{name}" == word or f"{w}{word}" == name for w in _WRAPPERS):
            return f" Did you mean {name!r}?"
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f" Did you mean {by_lower[close[0]]!r}?"
    shown = ", ".join(map(repr, known[:8]))
    return f" Known are {shown}{', ...' if len(known) > 8 else ''}" if known else ""
