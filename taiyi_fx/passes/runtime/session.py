"""Runs each forward of the instrumented model with its overrides installed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Protocol

import torch
from torch import nn
from torch._C._autograd import _get_sequence_nr
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.nn.parallel import DistributedDataParallel

from taiyi_fx.passes.flow.observer import DEEPEST, Flow, Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.passes.probes.compiled import end_forward
from taiyi_fx.passes.probes.compiling import constant_when_compiled, stays_python
from taiyi_fx.passes.probes.modes import modes_off, unseen
from taiyi_fx.passes.runtime.install import INSTALLATIONS, Installation
from taiyi_fx.passes.runtime.step_threads import StepThreads
from taiyi_fx.passes.stack_limit import narrow, widen

Forward = Callable[..., Any]

_PATIENCE = 5.0
"""The seconds that a training forward waits for another thread's, which may be waiting for it."""

MANY_UNTRACKED = 100
"""The number of training forwards without a first `track` that brings a warning."""


class Witness(Protocol):
    """Is told of training forwards, as they begin and end."""

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_compiled: bool) -> Any:
        """Takes the arguments of a forward that begins; returns what its end is told with."""

    def end(self, token: Any, value: Any) -> None:
        """Takes the output of a forward."""


class Session:
    """Runs each forward of an instrumented model, and keeps the state between them.

    Before and after a forward the model is as it was given: it holds no override of ours. Only
    where the whole call is compiled with the code around it, overrides stay installed, as compiled
    code checks at each call that they are still the same.

    Attributes:
        followed: The forwards that stayed Python.
        flow: The data flow of forwards that stayed Python, and all shapes, once seen.
        is_observing: True if the next forward is to show them.
        has_begun: True if a forward was read before.
        threads: The threads whose training forwards are read.
        has_unread: True if an evaluation was not read, as another thread's forward was under way.
        has_evaluated: True if a forward of the step was not read, as it trains nothing: one in
            evaluation mode or without gradients.
        is_uneven: True if a forward of the step ran within `DistributedDataParallel.join`, which
            lets ranks end one after another.
        forwards: The number of training forwards of the step that were read.
        untracked: The number of training forwards before the first ``track``.
        on_many_untracked: Called once, when these are many; None once a step was tracked.
        witness: Is told of each training forward, if it is set.
        on_call: Is told the arguments of each forward, if it is set.
        on_return: Is told what a forward returns, where `on_call` returned True.
    """

    def __init__(self, installation: Installation, followed: Collection[str]) -> None:
        depth = max(name.count(".") for name, _ in named_modules(installation.root))
        self.is_observing = depth < DEEPEST  # following the flow takes frames at each level, too
        self.installation = installation
        self.run = installation.run
        self.table = installation.table
        self.followed = followed
        self.flow: Flow | None = None
        self.has_begun = self.has_unread = self.has_evaluated = self.is_uneven = False
        self.threads = StepThreads()
        self.forwards = self.untracked = 0
        self.on_many_untracked: Callable[[], None] | None = None
        self.witness: Witness | None = None
        self.on_call: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None
        self.on_return: Callable[[Any], None] = _ignore
        self._compiler: Any = None
        self._lock = threading.RLock()
        self._has_waited = False

    def __call__(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a forward of the model and makes the due readings."""
        run, is_compiling = self.run, torch.compiler.is_compiling()
        # In one frame, as the compiler would compile others on their own.
        if run.inside and (is_compiling or run.thread == get_ident()):
            return forward(*args, **kwargs)
        if is_compiling:
            return self._within_compiled(forward, args, kwargs)
        compiler = set_eval_frame(None)  # our frames are not to be compiled, but the model's are
        if compiler is None:
            if self.on_call is not None and self.on_call(args, kwargs):
                value = self._witnessed(forward, args, kwargs)
                self.on_return(value)
                return value
            if self.witness is not None:
                return self._witnessed(forward, args, kwargs)
            if run.due or self.installation.is_always or self.on_many_untracked is not None:
                return self._python(forward, args, kwargs)
            return forward(*args, **kwargs)  # nothing of it is read
        self._compiler = compiler
        try:
            is_asked_for = self.on_call is not None and self.on_call(args, kwargs)
            self.is_observing = False  # compiled code cannot be followed
            called = functools.partial(_run_compiled, compiler, forward)
            value = self._witnessed(called, args, kwargs, True)
            if is_asked_for:
                self.on_return(value)
            return value
        finally:
            set_eval_frame(compiler)

    def _witnessed(
        self,
        forward: Forward,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        is_compiled: bool = False,
    ) -> Any:
        """Runs a forward; a training's own is told to the witness, if there is one."""
        witness = self.witness
        if witness is None or not self.run.is_training(self.installation.root):
            return self._python(forward, args, kwargs, is_compiled)
        token = witness.begin(args, kwargs, is_compiled)
        value = self._python(forward, args, kwargs, is_compiled)
        witness.end(token, value)
        return value

    def _python(
        self,
        forward: Forward,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        is_compiled: bool = False,
    ) -> Any:
        mode = self._mode()
        if mode is None and not self.has_evaluated:
            self.has_evaluated = not (self.installation.root.training and torch.is_grad_enabled())
        if mode is None and not self.installation.is_always:
            if is_compiled:
                return self._framed(forward, args, kwargs)
            return forward(*args, **kwargs)
        if self._lock.acquire(blocking=False):
            self._has_waited = False
        elif not self._is_first(mode):
            return forward(*args, **kwargs)
        try:
            self._begin(mode, needs_parts=self.is_observing, is_compiled=is_compiled)
            try:
                if self.run.mode is not None and self.is_observing:
                    return self._observed(forward, args, kwargs)
                return forward(*args, **kwargs)
            except BaseException:
                unseen(self._undo_reading)
                raise
            finally:
                self._end()
        finally:
            self._lock.release()

    def _framed(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs, in a frame of ours, a forward of which nothing is read.

        The compiler skips the frames of torch's own modules, and compiles the code they call.
        """
        root = self.installation.dispatchers[""]
        root.put()
        try:
            return forward(*args, **kwargs)
        finally:
            root.take_off()

    def unread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the model; nothing of it is read, and no witness told."""
        with self.unread_by(None):
            return self(self.installation.root.__call__, args, kwargs)

    def unread_compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same by the compiled code of the last call that ran any."""
        with self.unread_by(None):
            called = functools.partial(
                _run_compiled, self._compiler, self.installation.root.__call__
            )
            return self._witnessed(called, args, kwargs, self._compiler is not None)

    @contextmanager
    def unread_by(self, witness: Witness | None) -> Iterator[None]:
        """In the body nothing is read or looked at, and another witness is told of forwards."""
        due, before, on_call = self.run.due, self.witness, self.on_call
        self.run.set_due(frozenset())
        self.witness, self.on_call = witness, None
        try:
            yield
        finally:
            self.run.set_due(due)
            self.witness, self.on_call = before, on_call

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reads all calls of the model in the body as one forward."""
        if self.run.is_here:
            yield
            return
        mode = self._mode()
        is_needed = mode is not None or self.installation.is_always
        if not is_needed or not self._is_first(mode):
            yield
            return
        try:
            self._begin(mode, needs_parts=True)
            try:
                yield
            except BaseException:
                unseen(self._undo_reading)
                raise
            finally:
                self._end()
        finally:
            self._lock.release()

    def begin_tracking(self) -> tuple[bool, str | None]:
        """Ends the step for this thread, which tracks it; until `end_tracking` no other is read.

        Returns:
            Whether that is so, for `end_tracking`; and the reason why the readings are not the
            step's, if so, which are dropped then.
        """
        is_alone = self._wait(_PATIENCE)
        try:
            why = self.threads.end_step(0 if is_alone else self.run.thread)
            if why is not None:
                self.table.clear()
        except BaseException:
            self.end_tracking(is_alone)
            raise
        return is_alone, why

    def end_tracking(self, is_alone: bool) -> None:
        """Lets other threads be read again."""
        self.has_evaluated = self.is_uneven = False
        self.forwards = 0
        if is_alone:
            self._lock.release()

    def _mode(self) -> Mode | None:
        """The mode of a forward that begins now in this thread."""
        if self.on_many_untracked is not None:
            self._count_untracked()
        mode = self.run.mode_of(self.installation.root)
        return None if mode == "train" and not self.threads.may_read() else mode

    def _count_untracked(self) -> None:
        if not (self.installation.root.training and torch.is_grad_enabled()):
            return
        self.untracked += not self.run.is_in_backward
        if self.untracked == MANY_UNTRACKED and self.on_many_untracked is not None:
            tell, self.on_many_untracked = self.on_many_untracked, None
            tell()

    def _is_first(self, mode: Mode | None) -> bool:
        """True if this forward can be read, as no other thread's is being read.

        With edits it waits until that is so. Without, the other thread may be waiting for it: a
        training forward then waits for a limited time, and an evaluation not at all.
        """
        if self.installation.is_always:
            return self._lock.acquire()
        if mode == "eval":
            is_first = self._lock.acquire(blocking=False)
            self.has_unread |= not is_first
            return is_first
        is_first = self._wait(_PATIENCE)
        if not is_first:
            self.threads.leave_unread()
        return is_first

    def _wait(self, seconds: float) -> bool:
        """Waits until no other thread's forward is read, once for each such thread."""
        is_alone = self._lock.acquire(blocking=False)
        if not (is_alone or self._has_waited):
            is_alone = self._lock.acquire(timeout=seconds)
        self._has_waited = not is_alone
        return is_alone

    def _undo_reading(self) -> None:
        """Restores these states: a forward that failed does not count."""
        if self.run.mode is not None:
            self.table.restore()

    def _begin(self, mode: Mode | None, *, needs_parts: bool, is_compiled: bool = False) -> None:
        """Installs the overrides, and saves the states of the step so far."""
        if mode == "train" and not self.threads.may_read():
            mode = None  # the step belongs to the thread that this one waited for
        if not self.has_begun:
            self.has_begun = True
            if self.installation.meet_compiled_parts():
                self.is_observing = False  # compiled code cannot be followed
        self.installation.put(needs_parts=needs_parts or is_compiled, is_compiled=is_compiled)
        if mode is not None:
            self.table.board.is_open = False  # a forward that failed may have left it open
            if DistributedDataParallel._active_ddp_module is not None:
                self.is_uneven |= _is_uneven()
        self.run.begin(mode)
        self._first = _get_sequence_nr()
        if mode == "train" and self.threads.begin():
            unseen(self.table.clear)
        if mode is not None:
            self.table.begin_forward()
        self.forwards += mode == "train"
        widen()

    def _end(self) -> None:
        narrow()
        if self.run.mode is not None:
            board = self.table.board
            board.held.end_forward()
            if board.traces:
                with modes_off():
                    board.take_left()
        if self.installation.is_always and (made := range(self._first, _get_sequence_nr())):
            self.run.made.append(made)
        self.run.end()
        self.installation.take_off()

    def _within_compiled(
        self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        run = self.run
        mode = run.mode_of(self.installation.root)
        if mode is None and not self.installation.is_always:
            return forward(*args, **kwargs)
        _stand_for_good(self.installation.key)
        if not _has_hooks(self.installation.root):
            # By now the compiler has seen that the root has no override.
            forward = self.installation.dispatchers[""]
        self.installation.count_anew()
        board = self.table.board
        run.inside, run.mode = True, mode
        board.is_open = board.is_within = True
        try:
            value = forward(*args, **kwargs)
            end_forward(board)
        finally:
            run.inside, run.mode = False, None
            board.is_open = board.is_within = False
        return value

    def _observed(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.is_observing = False
        observer = self.run.observer = Observer(self.installation.root, self.followed)
        try:
            with observer.watching():
                value = observer.around("", forward, args, kwargs)
        finally:
            self.run.observer = None
        self.flow = observer.flow
        return value


def _is_uneven() -> bool:
    wrapper = DistributedDataParallel._active_ddp_module
    joining = wrapper and wrapper._join_config
    return bool(joining and joining.enable and not joining.throw_on_early_termination)


def _has_hooks(module: nn.Module) -> bool:
    hooks = module._forward_hooks, module._forward_pre_hooks
    return any(map(bool, (*hooks, module._backward_hooks, module._backward_pre_hooks)))


def _ignore(value: Any) -> None:
    """Does nothing."""


def _run_compiled(compiler: Any, forward: Forward, *args: Any, **kwargs: Any) -> Any:
    """The output of a forward for which torch.compile is switched on again."""
    set_eval_frame(compiler)
    try:
        return forward(*args, **kwargs)
    finally:
        set_eval_frame(None)


stays_python(Session.__call__)
stays_python(_run_compiled)


@constant_when_compiled
def _stand_for_good(key: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    INSTALLATIONS[key].stand_for_good()
    INSTALLATIONS[key].run.begin_compiled()
    return True
