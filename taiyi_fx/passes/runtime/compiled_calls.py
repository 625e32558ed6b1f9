"""Calls of functions in code that a Python forward has had compiled, handed over to be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch._ops import HigherOrderOperator

from taiyi_fx.passes.capture.function_sites import calls_by_itself
from taiyi_fx.passes.ir import Function

_ARGUMENTS = 7
"""Those of flex attention's operator, without tensors that its functions close over."""


class CompiledCall(NamedTuple):
    """A call that compiled code made.

    Attributes:
        operator: The operator that was called.
        args: Its arguments, without their graph.
        result: Its result, likewise.
    """

    operator: Function
    args: tuple[Any, ...]
    result: Any


class CompiledCalls:
    """Calls of some functions, noted by the compiled functions of the user's that make them.

    A compiled function, `torch.compile(flex_attention)` above all, shows no mode what it computes.
    But while it is compiled with a mode on, the compiler traces the mode, too, and does to its
    attributes what the traced code does, each time that the compiled code runs. So the tensors of
    flex attention, which its kernel takes from memory in any case, are there a moment later. They
    are outputs of the compiled code without a gradient: what it computes stays as it is.

    Those of other functions are left alone: they may be in no memory at all, and to want them would
    change what the compiler makes of the operations around them.

    The methods that the compiler traces look at nothing that differs from one module or moment to
    another: each difference would be another version, and a few too many end a training. So calls
    are a chain of pairs, of which nobody looks at the rest: of a list the compiler looks at the
    length. And attributes are slots: torch 2.13 loses what is set in an object's dictionary after
    it has traced an operator with a graph of its own, such as flex attention, once before.

    Args:
        functions: The functions whose calls are read.
        module: The module whose forward runs the compiled code.
    """

    __slots__ = ("_calls", "_functions", "_has_unread", "_is_read", "_operators")

    def __init__(self, functions: Iterable[Function], module: nn.Module) -> None:
        known = list(functions)
        self._operators = tuple(f for f in known if isinstance(f, HigherOrderOperator))
        self._functions = dict.fromkeys(f for f in known if f not in self._operators)
        # Which module's forward made a call is not told.
        self._is_read = any(calls_by_itself(module, f) for f in self._operators)
        # The last call, and a pair of the one before it and so on.
        self._calls: tuple[Any, ...] = ()
        self._has_unread = False

    def note(self, func: Any, args: Any, made: Any) -> None:
        """Notes a call of torch. The compiler traces this."""
        if func in self._operators and self._is_read and len(args) == _ARGUMENTS:
            q, k, v, score_mod, block_mask, scale, _ = args
            tensors = q.detach(), k.detach(), v.detach(), made[0].detach()
            # As a tensor: with dynamic shapes it is a symbol, which torch 2.13 fails to hand out.
            factor = q.new_full((), scale, dtype=torch.float64)
            self._calls = (func, tensors, score_mod, block_mask[-1], factor), self._calls
        elif self.covers(func):
            self._has_unread = True

    def covers(self, func: Any) -> bool:
        """True for one of the functions. The compiler traces this."""
        return func in self._operators or func in self._functions

    def has_noted(self, func: Any, args: Any) -> bool:
        """True if a call comes from a graph of the compiler's, which noted it as it was traced."""
        is_operator = isinstance(func, HigherOrderOperator) and func in self._operators
        return is_operator and any(isinstance(x, fx.GraphModule) for x in args)

    def take(self) -> tuple[list[CompiledCall], bool]:
        """The calls since the last time, and True if there were others, which cannot be read."""
        if not (self._calls or self._has_unread):
            return [], False
        found, has_unread = list(_chained(self._calls)), self._has_unread
        self.forget()
        return [_call(*each) for each in reversed(found)], has_unread

    def forget(self) -> None:
        """Drops the calls that nobody took."""
        self._calls, self._has_unread = (), False


def _chained(calls: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    while calls:
        call, calls = calls
        yield call


def _call(
    operator: Function, tensors: tuple[Any, ...], score_mod: Any, mask_mod: Any, scale: Tensor
) -> CompiledCall:
    q, k, v, y = tensors
    return CompiledCall(operator, (q, k, v, score_mod, (mask_mod,), scale, {}), y)
