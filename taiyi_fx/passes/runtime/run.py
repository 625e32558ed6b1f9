"""The state of a forward under way: its thread, its mode and the due readings."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._guards import TracingContext

from taiyi_fx.passes.ir import Due, Mode
from taiyi_fx.passes.probes.compiling import constant_when_compiled
from taiyi_fx.passes.probes.modes import is_traced
from taiyi_fx.passes.runtime.rehearsal import STAGE, is_rehearsal

if TYPE_CHECKING:
    from taiyi_fx.passes.flow.observer import Observer

_NOTHING_DUE = "due0"
_FORWARDS = 1024
"""The most forwards of a step whose backwards are still to come; each holds its activations."""
is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # not there in torch 2.6


class Calls:
    """Counts the calls of one target.

    Attributes:
        count: Calls since the root's forward began.
    """

    count = 0


class Run:
    """The state of a forward under way.

    Attributes:
        inside: True if a forward of the instrumented model is running.
        thread: The thread that it runs in.
        mode: The mode of its readings; None reads nothing.
        record_eval: True if forwards in eval mode are read too, apart from training.
        due: The readings due.
        due_key: A name for each set of due readings: a string is a constant to compiled code, where
            it would make a variable of a number that changes.
        observer: Follows the forward under way, or None.
        made: The numbers of autograd's nodes that the latest forwards of this step made, where
            backward may have to apply edits again.
    """

    def __init__(self, record_eval: bool) -> None:
        self.inside = False
        self.thread = 0
        self.mode: Mode | None = None
        self.record_eval = record_eval
        self.due: Due = frozenset()
        self.due_key = _NOTHING_DUE
        self.observer: Observer | None = None
        self.made: deque[range] = deque(maxlen=_FORWARDS)
        self._keys = {self.due: self.due_key}
        self._within: tuple[Callable[[], Any] | None, dict[Calls, int]] = None, {}

    def set_due(self, due: Due) -> None:
        """Makes these the due readings."""
        self.due = due
        self.due_key = self._keys.setdefault(due, f"due{len(self._keys)}")

    def within(self) -> dict[Calls, int]:
        """Calls in checkpoints that the compiler met in this forward and has not counted yet."""
        making = TracingContext.get()
        known, calls = self._within
        if known is None or known() is not making:
            calls = {}
            self._within = weakref.ref(making), calls
        return calls

    def begin_compiled(self) -> None:
        """Begins a forward in the graph that is being compiled, perhaps not the first there."""
        self._within = None, {}

    def begin(self, mode: Mode | None) -> None:
        """Begins a forward of the instrumented model in this thread."""
        self.inside, self.mode, self.thread = True, mode, get_ident()

    def end(self) -> None:
        """Ends the forward."""
        self.inside, self.mode, self.thread = False, None, 0

    @property
    def is_here(self) -> bool:
        """True if this thread is in a forward of the instrumented model.

        Calls of the same modules in other threads meanwhile are not part of it.
        """
        if torch.compiler.is_compiling():
            return self.inside
        return self.inside and self.thread == get_ident()

    @property
    def is_in_backward(self) -> bool:
        """True if backward runs this code again, as it does an activation checkpoint."""
        return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1

    @property
    def is_run_again(self) -> bool:
        """True if backward runs code of one of this step's forwards of the model again.

        Autograd numbers its nodes as they are made: the number of a checkpoint's node, of nested
        ones the outermost, says which forward made it.
        """
        if not self.made or not self.is_in_backward:
            return False
        numbers = [node._sequence_nr() for node in _nodes_under_way()]
        return any(number in made for number in numbers for made in self.made)

    def mode_here(self) -> Mode | None:
        """The mode of a call that begins now.

        None outside of this thread's forward of the instrumented model; in a transform of
        ``torch.func`` and where operations are traced, whose values are not tensors that could be
        kept; and in an exported program, which keeps no readings.
        """
        if not self.inside or self.mode is None or self.due_key == _NOTHING_DUE:
            return None
        if torch.compiler.is_compiling():
            return None if _is_exporting() or _is_transform_active() else self.mode
        if self.thread != get_ident() or torch._C._are_functorch_transforms_active():
            return None
        return None if is_traced() else self.mode

    def mode_of(self, root: nn.Module) -> Mode | None:
        """The mode of a forward that begins now.

        A training forward that builds a graph counts. One that runs inside backward is the second
        run of an activation checkpoint and does not, nor does one that `torch.jit.trace` or
        ``make_fx`` records, nor one that a pipeline's stage runs to learn shapes.
        """
        if self.due_key == _NOTHING_DUE:
            return None
        if root.training:
            if not torch.is_grad_enabled():
                return None
        elif not self.record_eval:
            return None
        if not torch.compiler.is_compiling() and _is_again():
            return None
        return "train" if root.training else "eval"

    def is_training(self, root: nn.Module) -> bool:
        """True if a forward that begins now is one of a training, and not run a second time."""
        return root.training and torch.is_grad_enabled() and not _is_again()


def _is_again() -> bool:
    """True in backward, while torch traces operations, or as a stage learns its shapes."""
    if torch._C._current_graph_task_id() != -1 or torch._C._is_tracing() or is_traced():
        return True
    return STAGE in sys.modules and is_rehearsal()


def _nodes_under_way() -> Iterator[Any]:
    """Autograd's nodes that run now, innermost first: a node may run a backward of its own."""
    node = torch._C._current_autograd_node()
    if node is not None:
        yield node
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "backward":
            held = frame.f_locals.get("ctx")
            if isinstance(held, torch._C._FunctionBase):
                yield held
        frame = frame.f_back


@constant_when_compiled
def _is_exporting() -> bool:
    # What torch 2.7 to 2.12 trace of a call is always True.
    return is_exporting()


@constant_when_compiled
def _is_transform_active() -> bool:
    return torch._C._are_functorch_transforms_active()
