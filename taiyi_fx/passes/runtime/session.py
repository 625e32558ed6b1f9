"""A forward of the instrumented model: while it runs, the model's parts are read."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C._autograd import _get_sequence_nr
from torch._C._dynamo.eval_frame import set_eval_frame

from taiyi_fx.passes.flow.observer import DEEPEST, Flow, Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.compiled import end_forward
from taiyi_fx.passes.probes.compiling import stays_python

if TYPE_CHECKING:
    from taiyi_fx.passes.runtime.install import Installation

Forward = Callable[..., Any]

_FRAMES = 4

INSTALLATIONS: weakref.WeakValueDictionary[str, Installation] = weakref.WeakValueDictionary()


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
        has_unread: Whether one was not, as another thread's was under way.
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
        self.has_begun = self.has_unread = False
        self._lock = threading.RLock()

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
        installation = self.installation
        mode = self.run.mode_of(installation.root)
        if mode is None and not installation.is_always:
            if is_compiled:
                return self._framed(forward, args, kwargs)
            return forward(*args, **kwargs)
        if not self._is_first():
            return forward(*args, **kwargs)
        try:
            limit = self._begin(mode, needs_parts=is_compiled or self.is_observing)
            self.table.begin_forward()
            try:
                if mode is not None and self.is_observing:
                    return self._observed(forward, args, kwargs)
                return forward(*args, **kwargs)
            except BaseException:
                self.table.restore()  # a forward that failed was none
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
        mode = self.run.mode_of(self.installation.root)
        is_needed = mode is not None or self.installation.is_always
        if self.run.is_here or not is_needed or not self._is_first():
            yield
            return
        try:
            limit = self._begin(mode, needs_parts=True)
            self.table.begin_forward()
            try:
                yield
            except BaseException:
                self.table.restore()
                raise
            finally:
                self._end(limit)
        finally:
            self._lock.release()

    def _is_first(self) -> bool:
        """Whether no other thread's forward is under way; where values are changed, once it ended.

        One that only reads does not wait: it might be what the other waits for.
        """
        is_first = self._lock.acquire(blocking=self.installation.is_always)
        self.has_unread |= not is_first
        return is_first

    def _begin(self, mode: Mode | None, *, needs_parts: bool) -> int:
        """Has all that is called of the model read; returns the limit of Python's stack."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + self.frames)
        if not self.has_begun:
            self.has_begun = True
            self.installation.meet_compiled_parts()
        self.installation.put(needs_parts=needs_parts)
        self.installation.count_anew()
        self.table.board.is_open = False  # as one that failed may have left it
        self.run.begin(mode)
        self._first = _get_sequence_nr()
        return limit

    def _end(self, limit: int) -> None:
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
