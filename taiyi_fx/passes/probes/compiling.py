"""Whether what runs becomes part of compiled code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._dynamo import eval_frame


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


def stays_python(function: Any) -> None:
    """Has the compiler go past a function that is called from outside, to what that calls.

    Where it compiles the caller too, it goes into the function as into any other.
    """
    # `torch._dynamo` itself takes a second to import.
    frames: Any = eval_frame
    if hasattr(frames, "skip_code"):  # in torch 2.6
        frames.skip_code(function.__code__)
    else:
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)
