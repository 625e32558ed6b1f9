"""An interrupt at each instruction between a tracked step and its file, one after the other."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

_PLACES = ("writers/", "runs/", "records/", "step/", "monitor.py")
_OURS = tuple(f"/taiyi_fx/{place}" for place in _PLACES)


class Instruction(NamedTuple):
    """One of Python's instructions that an action takes.

    Attributes:
        call: The number of the call of our code, of all that the action makes, that takes it.
        number: Its own, of all that this call takes.
    """

    call: int
    number: int


def instructions_of(action: Callable[[], object]) -> list[Instruction]:
    """Python's instructions that an action takes in that code, in their order."""
    found: list[Instruction] = []
    calls = itertools.count()

    def enter(frame, event, arg):
        if not _is_ours(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        call, numbers = next(calls), itertools.count()

        def step(frame, event, arg):
            if event == "opcode":
                found.append(Instruction(call, next(numbers)))
            return step

        return step

    _traced(action, enter)
    return found


def chosen(instructions: Sequence[Instruction], few: int | None) -> Sequence[Instruction]:
    """A few of them, with the first and the last and evenly chosen between, or all."""
    if few is None:
        return instructions
    last = len(instructions) - 1
    return [instructions[i] for i in sorted({i * last // (few - 1) for i in range(few)})]


def interrupted_at(action: Callable[[], object], instruction: Instruction) -> None:
    """Runs an action, in which an interrupt comes before that instruction.

    Only the call that takes it is traced instruction by instruction: to look at those of all other
    calls takes several times as long as the action.
    """
    calls = itertools.count()

    def enter(frame, event, arg):
        if not _is_ours(frame.f_code) or next(calls) != instruction.call:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        numbers = itertools.count()

        def step(frame, event, arg):
            if event == "opcode" and next(numbers) == instruction.number:
                sys.settrace(None)
                raise KeyboardInterrupt
            return step

        return step

    try:
        _traced(action, enter)
    except KeyboardInterrupt:
        return


def _is_ours(code: CodeType) -> bool:
    return any(folder in code.co_filename for folder in _OURS)


def _traced(action: Callable[[], object], enter: Callable[[FrameType, str, Any], Any]) -> None:
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(before)
