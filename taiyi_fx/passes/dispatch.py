"""A part's forward: the graph that stands in for it, or its own Python."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.flow import Flow, Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.standin import Standin


class Dispatcher(Stand):
    """A part's forward: a graph where one stands in, else its Python, over islands.

    Attributes:
        standins: The graphs that may stand in.
        sites: Names of the targets that they call.
        edited: Names of those that change what passes, read or not.
        only_here: Names of those that only a graph can change.
        is_rewritten: Whether passes of the user's own made its graphs, which then run at each
            call.
    """

    is_rewritten = False
    edited: frozenset[str] = frozenset()
    only_here: frozenset[str] = frozenset()

    def __init__(
        self, part: nn.Module, standins: list[Standin], run: Run, python: Callable[..., Any]
    ) -> None:
        super().__init__(part)
        self.standins = standins
        self.run = run
        self.python = python
        self.sites = frozenset(name for s in standins for name in s.captured.seen.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.probed(self.run.mode_of(self.module), args, kwargs)

    def probed(self, mode: Mode | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The forward with its edits, and in a mode with the due readings made."""
        if mode is None and not self.edited and not self.is_rewritten:
            return self.plain(*args, **kwargs)
        function = self.function(mode)
        if function is None:
            return self.python(*args, **kwargs)
        return function(self.module, *args, **kwargs)

    def function(self, mode: Mode | None) -> Callable[..., Any] | None:
        """The function of the graph that stands in now, if one does.

        Raises:
            RuntimeError: None does, and what passes or an edit do is done nowhere else.
        """
        for standin in self.standins:
            if standin.holds():
                return standin.function(mode)
        if self.is_rewritten:
            part = self.standins[0].captured.part or "the model"
            raise RuntimeError(
                f"what the passes made of {part!r} cannot run: it has changed since it was "
                "traced, or has hooks; instrument it again as it is now"
            )
        if self.only_here:
            names = ", ".join(map(repr, sorted(self.only_here)))
            raise RuntimeError(
                f"the edit of {names} cannot be made: a call of a function is only seen in a "
                "graph, and the model has changed since it was traced; instrument it again"
            )
        return None


class RootDispatcher(Dispatcher):
    """The forward of the whole model: what runs inside it is one forward.

    Attributes:
        table: Where readings go.
        counters: The calls to count from the first again.
        followed: The forwards that stayed Python.
        flow: The data flow of what stayed Python and the shapes of what flows, once seen.
        is_observing: Whether the next forward shows them.
        begin: What is left to do when the first forward begins.
    """

    table: SlotTable
    counters: tuple[Calls, ...] = ()
    followed: Collection[str] = ()
    flow: Flow | None = None
    is_observing = False
    begin: Callable[[], None] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = self.run
        mode = run.mode_of(self.module)
        if mode is None:
            # Whatever runs inside is not read either.
            return self._within(None, self._probed, args, kwargs)
        if run.inside:  # the model calls itself
            return self.probed(mode, args, kwargs)
        for counter in self.counters:
            counter.count = 0
        if torch.compiler.is_compiling():
            return self._within(mode, self._probed, args, kwargs)
        if self.begin is not None:
            self.begin, begin = None, self.begin
            begin()
        before = self.table.states()
        try:
            forward = self._observed if self.is_observing else self._probed
            value = self._within(mode, forward, args, kwargs)
        except BaseException:
            self.table.restore(before)  # a forward that failed was none
            raise
        return value

    def _within(
        self,
        mode: Mode | None,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        run = self.run
        outer = run.inside, run.mode
        run.inside, run.mode = True, mode
        try:
            return forward(*args, **kwargs)
        finally:
            run.inside, run.mode = outer

    def _probed(self, *args: Any, **kwargs: Any) -> Any:
        return self.probed(self.run.mode, args, kwargs)

    def _observed(self, *args: Any, **kwargs: Any) -> Any:
        self.is_observing = False
        observer = self.run.observer = Observer(self.module, self.followed)
        try:
            with observer.watching():
                value = observer.around("", self._probed, args, kwargs)
        finally:
            self.run.observer = None
        self.flow = observer.flow
        return value
