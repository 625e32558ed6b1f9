"""Calls of functions in code that a Python forward has had compiled, handed over to be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import fx, nn
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

    The methods that the compiler traces look at nothing that differs from one module to another:
    each difference would be another version, and a few too many end a training. So they set
    attributes, and read two truths alone: what they set is in no list, whose length and content
    would be looked at. Two calls may so wait to be read, until the forward calls torch itself.

    Args:
        functions: The functions whose calls are read.
        module: The module whose forward runs the compiled code.
    """

    def __init__(self, functions: Iterable[Function], module: nn.Module) -> None:
        known = list(functions)
        self._operators = tuple(f for f in known if isinstance(f, HigherOrderOperator))
        self._functions = dict.fromkeys(f for f in known if f not in self._operators)
        # Which module's forward made a call is not told.
        self._is_read = any(calls_by_itself(module, f) for f in self._operators)
        self._first: tuple[Any, ...] = ()
        self._second: tuple[Any, ...] = ()
        self._has_first = self._has_second = self._has_unread = False

    def note(self, func: Any, args: Any, made: Any) -> None:
        """Notes a call of torch. The compiler traces this."""
        if func in self._operators and self._is_read and len(args) == _ARGUMENTS:
            q, k, v, score_mod, block_mask, scale, _ = args
            tensors = q.detach(), k.detach(), v.detach(), made[0].detach()
            call = (func, tensors, score_mod, block_mask[-1], scale)
            if not self._has_first:
                self._first, self._has_first = call, True
            elif not self._has_second:
                self._second, self._has_second = call, True
            else:
                self._has_unread = True
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
        # The second may be there without the first, which was taken as it was compiled.
        if not (self._has_first or self._has_second or self._has_unread):
            return [], False
        found, has_unread = list(filter(None, (self._first, self._second))), self._has_unread
        self.forget()
        return [_call(*each) for each in found], has_unread

    def forget(self) -> None:
        """Drops the calls that nobody took."""
        self._first = self._second = ()
        self._has_first = self._has_second = self._has_unread = False


def _call(
    operator: Function, tensors: tuple[Any, ...], score_mod: Any, mask_mod: Any, scale: float
) -> CompiledCall:
    q, k, v, y = tensors
    return CompiledCall(operator, (q, k, v, score_mod, (mask_mod,), scale, {}), y)
