"""Room on Python's stack for modules within modules: each call of one takes frames of ours, too.

A plain call of a module takes three frames, one that is read up to seven, and one that is traced
up to twelve. So a model whose calls fit the limit of the stack, nested or calling itself, fits one
three times as large with ours. Where the user has given threads a small stack of the machine's, the
limit stays: it is what makes a call without end an error, and not the end of the process.
"""

from __future__ import annotations

import sys
import threading

_TIMES = 3
_SMALL = 2**21
"""Bytes of a thread's stack; a model that calls itself up to the larger limit has taken half."""

_lock = threading.Lock()
_widened = 0
_before = 0


def widen() -> None:
    """Raises the limit of Python's stack, until `narrow` was called as often."""
    global _widened, _before
    with _lock:
        _widened += 1
        if _widened == 1:
            _before = sys.getrecursionlimit()
            if size := threading.stack_size():  # which sets the machine's default
                threading.stack_size(size)
            if not 0 < size < _SMALL:
                sys.setrecursionlimit(_TIMES * _before)


def narrow() -> None:
    """Restores the limit after the last one that needs more; one that a model has set stays."""
    global _widened
    with _lock:
        _widened -= 1
        if _widened == 0 and sys.getrecursionlimit() == _TIMES * _before:
            sys.setrecursionlimit(_before)
