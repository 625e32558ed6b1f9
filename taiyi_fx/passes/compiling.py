"""Whether what runs becomes part of compiled code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Operators(threading.local):
    """How many operators are at work, one within the other."""

    depth = 0


_OPERATORS = _Operators()


def is_compiling() -> bool:
    """Whether a statistic is measured for compiled code, where nothing may depend on its value.

    The compiler answers for what it goes through itself; what it calls as one operator it does not
    see.
    """
    return torch.compiler.is_compiling() or _OPERATORS.depth > 0


@contextmanager
def for_compiled_code() -> Iterator[None]:
    """What runs in the body is an operator's."""
    _OPERATORS.depth += 1
    try:
        yield
    finally:
        _OPERATORS.depth -= 1
