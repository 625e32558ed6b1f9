"""The end of a process that was not meant to end: an error that nobody caught, or SIGTERM.

One hook of each kind serves the process; it is put when the first recorder begins and taken back
when the last one ends. What was there before is called after it. Where something else was put on
top meanwhile, ours stays beneath and passes on what it is told.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import weakref
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Protocol


class AtEnd(Protocol):
    """An object that is told of the end."""

    def ends(self, why: str) -> None:
        """Takes the reason."""
        ...


_OPEN: weakref.WeakSet[AtEnd] = weakref.WeakSet()


class _Hooks:
    """The hooks of this process, and what they stand in for."""

    def __init__(self) -> None:
        self.process: int | None = None
        self.is_of_errors = self.is_of_signal = False
        self.of_errors: Any = None
        self.of_signal: Any = None

    def put(self) -> None:
        self.process = os.getpid()
        if not self.is_of_errors:
            self.is_of_errors = True
            self.of_errors, sys.excepthook = sys.excepthook, on_error
        if self.is_of_signal or threading.current_thread() is not threading.main_thread():
            return  # Python sets handlers in the main thread alone
        before = signal.getsignal(signal.SIGTERM)
        if before is not None:  # one that Python did not set could not be called
            self.is_of_signal, self.of_signal = True, before
            signal.signal(signal.SIGTERM, on_signal)

    def take_back(self) -> None:
        if self.is_of_errors and sys.excepthook is on_error:
            sys.excepthook, self.is_of_errors = self.of_errors, False
        if threading.current_thread() is not threading.main_thread():
            return
        if self.is_of_signal and signal.getsignal(signal.SIGTERM) is on_signal:
            signal.signal(signal.SIGTERM, self.of_signal)
            self.is_of_signal = False


_HOOKS = _Hooks()


def tell_of_end(one: AtEnd) -> None:
    """Has an object told if the process ends by an error or by SIGTERM."""
    _OPEN.add(one)
    _HOOKS.put()


def tell_no_more(one: AtEnd) -> None:
    """Leaves out an object."""
    _OPEN.discard(one)
    if not _OPEN:
        _HOOKS.take_back()


def on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tells of an error that nobody caught; then does what was done before."""
    _tell(named(error, kind))
    _HOOKS.of_errors(kind, error, trace)


def on_signal(number: int, frame: FrameType | None) -> None:
    """Tells of SIGTERM; then does what was done before."""
    _tell("SIGTERM")
    before = _HOOKS.of_signal
    if callable(before):
        before(number, frame)
    elif before == signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def named(error: BaseException, kind: type[BaseException] | None = None) -> str:
    """An error as a reason."""
    text = f"{(kind or type(error)).__name__}: {error}"
    return text if len(text) <= 500 else f"{text[:500]} ..."


def _tell(why: str) -> None:
    if os.getpid() != _HOOKS.process:  # a worker that was forked has the hooks, but no training
        return
    for one in [*_OPEN]:
        try:
            one.ends(why)
        except BaseException:  # noqa: BLE001 - the process ends in its own way all the same
            with suppress(RuntimeError):  # the signal may have come while standard error is written
                traceback.print_exc()
