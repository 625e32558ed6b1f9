"""A process that is killed at each of its system calls, or whose call fails, one after the other."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable

import pytest

_TRACE_ME, _PEEK_USER, _POKE_USER, _NEXT_CALL, _SET_OPTIONS = 0, 3, 6, 24, 0x4200
_MARKED, _KILL_WITH_PARENT = 1, 0x100000
_NUMBER, _RESULT, _THIRD = 8 * 15, 8 * 10, 8 * 12
"""The places of a call's number, its result and its third argument among x86-64's registers."""

WRITING = {1, 18, 20, 74, 75, 76, 77, 82, 83, 87, 263, 264, 296, 316}
"""write, pwrite64, writev, fsync, fdatasync, truncate, ftruncate, rename, mkdir, unlink,
unlinkat, renameat, pwritev, renameat2: all that change files, beside an openat that may write."""

_OPEN = 257

needs_tracing = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="calls are counted by Linux' ptrace on x86-64",
)


def calls_of(action: Callable[[], object]) -> int:
    """The number of calls by which an action changes files."""
    return _traced(action, None)


def killed_at(action: Callable[[], object], call: int) -> None:
    """Runs an action in a process that is killed before its call of this number is made."""
    _traced(action, call)


def failed_at(action: Callable[[], object], call: int, error: int) -> None:
    """Runs an action in a process whose call of this number is not made, but fails."""
    _traced(action, call, error)


def _traced(action: Callable[[], object], chosen: int | None, error: int | None = None) -> int:
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.restype, trace.argtypes = ctypes.c_long, [ctypes.c_long] * 4

    def writes() -> bool:
        number = trace(_PEEK_USER, child, _NUMBER, 0)
        opens_to_write = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        return number in WRITING or (
            number == _OPEN and bool(trace(_PEEK_USER, child, _THIRD, 0) & opens_to_write)
        )

    child = _stopped(action, trace)
    trace(_SET_OPTIONS, child, 0, _MARKED | _KILL_WITH_PARENT)
    count, is_entry, passed_on, fails = 0, True, 0, False
    while True:
        trace(_NEXT_CALL, child, 0, passed_on)
        passed_on = 0
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            assert os.WIFEXITED(status)
            assert os.WEXITSTATUS(status) == 0
            return count
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            passed_on = os.WSTOPSIG(status)
            continue
        if fails:
            trace(_POKE_USER, child, _RESULT, -(error or 0))
            fails = False
        if is_entry and writes():
            if count == chosen and error is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return count
            if count == chosen:
                trace(_POKE_USER, child, _NUMBER, -1)
                fails = True
            count += 1
        is_entry = not is_entry


def _stopped(action: Callable[[], object], trace: Callable[[int, int, int, int], int]) -> int:
    """A child that may be traced and stands before the action."""
    child = os.fork()
    if not child:
        code = 1
        try:
            sys.dont_write_bytecode = True  # a first import would make calls that no later one does
            trace(_TRACE_ME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.waitpid(child, 0)
    return child
