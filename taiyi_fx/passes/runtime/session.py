"""A forward of the instrumented model: while it runs, the model's parts are read."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch._C._autograd import _get_sequence_nr
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.nn.parallel import DistributedDataParallel

from taiyi_fx.passes.flow.observer import DEEPEST, Flow, Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.compiled import end_forward
from taiyi_fx.passes.probes.compiling import stays_python
from taiyi_fx.passes.runtime.install import INSTALLATIONS, Installation
from taiyi_fx.passes.runtime.step_threads import StepThreads

Forward = Callable[..., Any]

_FRAMES = 4

_PATIENCE = 5.0
"""So many seconds a forward in training waits for another thread's, which may be waiting for it."""

MANY_UNTRACKED = 100
"""So many training forwards without a first `track` are told of."""


class Session:
    """What surrounds each forward of an instrumented model.

    Before and after it the model is as it was given: nothing of ours stands anywhere in it. Only
    where the whole call is compiled with what is around it, forwards are put there for good, as
    compiled code asks at each call whether they are still the same.

    Attributes:
        followed: The forwards that stayed Python.
        flow: The data flow of what stayed Python and the shapes of what flows, once seen.
        is_observing: Whether the next forward shows them.
        has_begun: Whether a forward was read before.
        threads: The threads whose training forwards are read.
        has_unread: Whether an evaluation was not, as another thread's was under way.
        is_uneven: Whether a forward of the step ran within `DistributedDataParallel.join`, which
            lets ranks end one after another.
        untracked: How many training forwards ran while ``on_many_untracked`` was there.
        on_many_untracked: Called once, when these are many; None once a step was tracked.
        frames: How many frames of Python's stack it may take besides the model's, where the model
            takes many.
    """

    def __init__(self, installation: Installation, followed: Collection[str]) -> None:
        depth = max(name.count(".") for name, _ in installation.root.named_modules())
        self.frames = _FRAMES * (depth + 1) if depth > DEEPEST else 0
        self.is_observing = depth < DEEPEST  # following a flow takes frames at each level, too
        self.installation = installation
        self.run = installation.run
        self.table = installation.table
        self.followed = followed
        self.flow: Flow | None = None
        self.has_begun = self.has_unread = self.is_uneven = False
        self.threads = StepThreads()
        self.untracked = 0
        self.on_many_untracked: Callable[[], None] | None = None
        self._lock = threading.RLock()
        self._has_waited = False

    def __call__(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a forward of the model, read as is due."""
        run, is_compiling = self.run, torch.compiler.is_compiling()
        # In one frame, as the compiler would take others for itself.
        if run.inside and (is_compiling or run.thread == get_ident()):
            return forward(*args, **kwargs)
        if is_compiling:
            return self._compiled(forward, args, kwargs)
        compiler = set_eval_frame(None)  # what is ours is not to be compiled, but what it calls
        if compiler is None:
            return self._python(forward, args, kwargs)
        try:
            self.is_observing = False  # what is compiled cannot be followed
            return self._python(functools.partial(_compiled, compiler, forward), args, kwargs, True)
        finally:
            set_eval_frame(compiler)

    def _python(
        self,
        forward: Forward,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        is_compiled: bool = False,
    ) -> Any:
        mode = self._mode()
        if mode is None and not self.installation.is_always:
            if is_compiled:
                return self._framed(forward, args, kwargs)
            return forward(*args, **kwargs)
        if not self._is_first(mode):
            return forward(*args, **kwargs)
        try:
            limit = self._begin(mode, needs_parts=is_compiled or self.is_observing)
            self._begin_reading()
            try:
                if self.run.mode is not None and self.is_observing:
                    return self._observed(forward, args, kwargs)
                return forward(*args, **kwargs)
            except BaseException:
                self._undo_reading()
                raise
            finally:
                self._end(limit)
        finally:
            self._lock.release()

    def _framed(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a forward of which nothing is read in a frame of ours.

        The compiler goes past those of torch's own modules, to what they call.
        """
        root = self.installation.dispatchers[""]
        root.put()
        try:
            return forward(*args, **kwargs)
        finally:
            root.take_off()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What the body calls of the model is read as one forward."""
        if self.run.is_here:
            yield
            return
        mode = self._mode()
        is_needed = mode is not None or self.installation.is_always
        if not is_needed or not self._is_first(mode):
            yield
            return
        try:
            limit = self._begin(mode, needs_parts=True)
            self._begin_reading()
            try:
                yield
            except BaseException:
                self._undo_reading()
                raise
            finally:
                self._end(limit)
        finally:
            self._lock.release()

    @contextmanager
    def ending_step(self) -> Iterator[str | None]:
        """Gives what was read to this thread, which tracks; no other's is read in the body.

        Gives why what was read is not the step's, if so; it is forgotten then.
        """
        is_alone = self._wait(_PATIENCE)
        try:
            why = self.threads.end_step(0 if is_alone else self.run.thread)
            if why is not None:
                self.table.clear()
            yield why
        finally:
            self.is_uneven = False
            if is_alone:
                self._lock.release()

    def _mode(self) -> Mode | None:
        """How a forward that begins now in this thread is read."""
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
        """Whether this forward can be read, as no other thread's is.

        Where values are changed, it waits for that. Else it might be what the other thread waits
        for: in training its patience has an end, and an evaluation does not wait.
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
        """Waits until no other thread's forward is read, but for one and the same only once."""
        is_alone = self._lock.acquire(blocking=False)
        if not (is_alone or self._has_waited):
            is_alone = self._lock.acquire(timeout=seconds)
        self._has_waited = not is_alone
        return is_alone

    def _begin_reading(self) -> None:
        """Keeps what the step has brought so far; a forward that is not read leaves it alone."""
        if self.run.mode == "train" and self.threads.begin():
            self.table.clear()
        if self.run.mode is not None:
            self.table.begin_forward()

    def _undo_reading(self) -> None:
        """Takes the step back to that: a forward that failed was none."""
        if self.run.mode is not None:
            self.table.restore()

    def _begin(self, mode: Mode | None, *, needs_parts: bool) -> int:
        """Has all that is called of the model read; returns the limit of Python's stack."""
        if mode == "train" and not self.threads.may_read():
            mode = None  # the thread that this one waited for was that of the step
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + self.frames)
        if not self.has_begun:
            self.has_begun = True
            if self.installation.meet_compiled_parts():
                self.is_observing = False  # what is compiled cannot be followed
        self.installation.put(needs_parts=needs_parts)
        self.installation.count_anew()
        if mode is not None:
            self.table.board.is_open = False  # as one that failed may have left it
            self.is_uneven |= _is_uneven()
        self.run.begin(mode)
        self._first = _get_sequence_nr()
        return limit

    def _end(self, limit: int) -> None:
        if self.run.mode is not None:
            self.table.board.held.end_forward()
            self.table.board.take_left()
        if self.installation.is_always:
            self.run.made.append(range(self._first, _get_sequence_nr()))
        self.run.end()
        self.installation.take_off()
        sys.setrecursionlimit(limit)

    def _compiled(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = self.run
        mode = run.mode_of(self.installation.root)
        if mode is None and not self.installation.is_always:
            return forward(*args, **kwargs)
        _stand_for_good(self.installation.key)
        if not _has_hooks(self.installation.root):
            # The compiler has seen by now that no forward stands on the root.
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


def _compiled(compiler: Any, forward: Forward, *args: Any, **kwargs: Any) -> Any:
    """What a forward returns that torch.compile takes over again."""
    set_eval_frame(compiler)
    try:
        return forward(*args, **kwargs)
    finally:
        set_eval_frame(None)


stays_python(Session.__call__)
stays_python(_compiled)


@torch.compiler.assume_constant_result
def _stand_for_good(key: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    INSTALLATIONS[key].stand_for_good()
    INSTALLATIONS[key].run.begin_compiled()
    return True
