"""Modes of torch that are on around a model, which see no operation of a probe.

A torch function mode or a torch dispatch mode is shown each operation of torch, and may count it,
change its result or draw random numbers for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack, _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode
from torch.utils import _python_dispatch

_KEYS = torch._C._TorchDispatchModeKey
_TRACES = (_KEYS.PROXY, _KEYS.FUNCTIONAL, _KEYS.FAKE)


def are_modes_on() -> bool:
    """True if a mode is active, which would be shown each operation of torch."""
    return _len_torch_function_stack() > 0 or _len_torch_dispatch_stack() > 0


def is_traced() -> bool:
    """True if operations are recorded, or run on tensors without data: there is nothing to read.

    So it is in ``make_fx``, in ``aot_function`` and under a fake tensor mode.
    """
    if not _len_torch_dispatch_stack():
        return False
    return any(torch._C._get_dispatch_mode(key) is not None for key in _TRACES)


def modes_off() -> AbstractContextManager[None]:
    """In the body no mode is active."""
    return _modes_taken_off() if are_modes_on() else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def _modes_taken_off() -> Iterator[None]:
    seen = [_pop_mode() for _ in range(_len_torch_function_stack())]
    below: list[Any] = [_python_dispatch._pop_mode() for _ in range(_len_torch_dispatch_stack())]
    try:
        yield
    finally:
        for mode in reversed(below):
            _python_dispatch._push_mode(mode)
        for mode in reversed(seen):
            _push_mode(mode)


@contextmanager
def below_others(mode: TorchFunctionMode) -> Iterator[None]:
    """In the body a mode is on, and is shown what all other torch function modes leave to torch."""
    others = [_pop_mode() for _ in range(_len_torch_function_stack())]
    try:
        with mode:
            for other in reversed(others):
                _push_mode(other)
            try:
                yield
            finally:
                for _ in others:
                    _pop_mode()
    finally:
        for other in reversed(others):
            _push_mode(other)


def with_modes_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called with no mode active."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not are_modes_on():  # as nearly always: entering a context takes three functions more
            return function(*args, **kwargs)
        with modes_off():
            return function(*args, **kwargs)

    return run


def unseen(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function; no mode sees its operations, unless the compiler traces it."""
    if torch.compiler.is_compiling() or not are_modes_on():
        return function(*args)
    with modes_off():
        return function(*args)
