"""Torch function modes of the user's own, which see no operation of a probe."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch._C import _len_torch_function_stack
from torch.overrides import _pop_mode, _push_mode


def are_modes_on() -> bool:
    """True if a torch function mode is active, which would be shown each operation of torch."""
    return _len_torch_function_stack() > 0


def modes_off() -> AbstractContextManager[None]:
    """In the body no torch function mode is active."""
    return _modes_taken_off() if are_modes_on() else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def _modes_taken_off() -> Iterator[None]:
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def with_modes_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called with no torch function mode active."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with modes_off():
            return function(*args, **kwargs)

    return run
