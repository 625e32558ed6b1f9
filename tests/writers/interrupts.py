"""An interrupt at each instruction between a tracked step and its file, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable

_PLACES = ("writers/", "runs/", "records/", "step/", "monitor.py")
_OURS = tuple(f"/taiyi_fx/{place}" for place in _PLACES)


def instructions_of(action: Callable[[], object]) -> int:
    """The number of Python's instructions that an action takes in that code."""
    return _traced(action, None)


def interrupted_at(action: Callable[[], object], instruction: int) -> None:
    """Runs an action, in which an interrupt comes before its instruction of this number."""
    try:
        _traced(action, instruction)
    except KeyboardInterrupt:
        return


def _traced(action: Callable[[], object], last: int | None) -> int:
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if not any(folder in frame.f_code.co_filename for folder in _OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            if count == last:
                sys.settrace(None)
                raise KeyboardInterrupt
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
