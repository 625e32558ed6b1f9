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
_NUMBER, _RESULT = 8 * 15, 8 * 10
"""The places of a call's number and of its result among the registers of x86-64."""

WRITING = {1, 18, 20, 74, 75, 76, 77, 82, 83, 87, 257, 263, 264, 296, 316}
"""write, pwrite64, writev, fsync, fdatasync, truncate, ftruncate, rename, mkdir, unlink, openat,
unlinkat, renameat, pwritev, renameat2: all that change files."""

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
    child = os.fork()
    if not child:
        code = 1
        try:
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
        if is_entry and trace(_PEEK_USER, child, _NUMBER, 0) in WRITING:
            if count == chosen and error is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return count
            if count == chosen:
                trace(_POKE_USER, child, _NUMBER, -1)
                fails = True
            count += 1
        is_entry = not is_entry
