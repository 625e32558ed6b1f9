"""Errors with a line of context."""

from __future__ import annotations

import sys


def add_note(error: Exception, note: str) -> None:
    """Adds a line to an error's message; Python 3.10 has no notes of its own."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.args = ("\n".join([*map(str, error.args[:1]), note]), *error.args[1:])
