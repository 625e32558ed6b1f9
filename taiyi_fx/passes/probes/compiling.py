"""The state of the compiler: if code is being compiled, and which functions it traces into."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch._C._dynamo import eval_frame
from torch.fx.node import has_side_effect

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Operations(threading.local):
    """The operations of compiled code that are running.

    Attributes:
        depth: The number of nested ones.
        are_merged: True if compiled code may merge what is measured.
    """

    depth = 0
    are_merged = False


_AT_WORK = _Operations()
_ONE_OPERATION: list[Callable[..., Any]] = []


def is_compiling() -> bool:
    """True if a statistic is measured for compiled code, where nothing may depend on its value.

    The compiler's own answer covers the code that it traces, not the inside of an operation.
    """
    return torch.compiler.is_compiling() or _AT_WORK.depth > 0


def may_have_size_of(rows: int) -> bool:
    """True if a state may be as large as the tensor is that is measured now, of so many rows.

    In compiled code it may not where the code merges states itself, as those of two forwards that
    are compiled as one, nor where the compiler left the number of rows open: a bound on it would
    be one more guard.
    """
    return not is_compiling() or (isinstance(rows, int) and not _AT_WORK.are_merged)


@contextmanager
def for_compiled_code(*, are_merged: bool = True) -> Iterator[None]:
    """Marks the body as part of compiled code.

    Args:
        are_merged: True if the code may merge the states that are measured.
    """
    before = _AT_WORK.are_merged
    _AT_WORK.depth += 1
    _AT_WORK.are_merged = are_merged
    try:
        yield
    finally:
        _AT_WORK.depth -= 1
        _AT_WORK.are_merged = before


def one_operation(function: _Function) -> _Function:
    """Makes calls of a function one operation each to the compiler, which never removes one.

    Its arguments are tensors and constants, and lists of them.
    """
    _ONE_OPERATION.append(function)
    return function


def take_operations() -> None:
    """Registers these functions with the compiler, late because its import takes long."""
    while _ONE_OPERATION:
        function = _ONE_OPERATION.pop()
        torch._dynamo.allow_in_graph(function)
        has_side_effect(function)


def constant_when_compiled(function: _Function) -> _Function:
    """Makes the compiler call a function as it traces, and take its result for a constant.

    As `torch.compiler.assume_constant_result`, which imports the compiler to set this attribute.
    """
    vars(function)["_dynamo_marked_constant"] = True
    return function


CHECKPOINT = "an activation checkpoint"


def body_under_way() -> str:
    """The innermost operation with a body that the compiler is tracing, or ``""``.

    Only the body's return values leave it. Call this while the compiler traces.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    tracer = InstructionTranslator.current_tx().output.current_tracer
    found = ""
    while tracer.parent is not None:
        own = tracer.source_fn_stack[len(tracer.parent.source_fn_stack) :]
        if not own or "checkpoint" not in own[-1][0]:
            return own[-1][0] if own else "a body of the compiler's own"
        tracer, found = tracer.parent, CHECKPOINT
    return found


@constant_when_compiled
def is_in_a_body() -> bool:
    """True if what the compiler traces now is such a body."""
    return bool(body_under_way())


_GRAPHS = 1024
"""The limit of graphs that torch keeps of one function, where its own is lower."""


@constant_when_compiled
def make_room_for_graphs() -> bool:
    """Lets torch make a graph of a function of the model's own for each part that is read in it.

    And for each set of due readings: blocks of one class that compile a method share its code. At
    its own limit of eight torch runs the function as it is, which changes last bits, or raises.
    """
    config: Any = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # 2.6
    for name in (limit, f"accumulated_{limit}"):
        setattr(config, name, max(getattr(config, name), _GRAPHS))
    return True


def stays_python(function: Any) -> None:
    """Makes the compiler skip a function's own frame, and compile the functions that it calls.

    Where the caller is compiled too, the compiler traces into the function as into any other.
    """
    # `torch._dynamo` itself takes a second to import.
    frames: Any = eval_frame
    if hasattr(frames, "skip_code"):  # in torch 2.6
        frames.skip_code(function.__code__)
    else:
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)
