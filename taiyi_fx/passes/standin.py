"""A captured graph, and whether running it is, now, the same as running the model's Python."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn

from taiyi_fx.passes.capture.captured import CapturedGraph
from taiyi_fx.passes.emit import Wrap, emit
from taiyi_fx.passes.flow import Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.pipeline import compile_due, probe_graph
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import Board, SlotTable
from taiyi_fx.passes.specialize import specialize

Starts = tuple[tuple[int, int], ...]
"""Which targets had been called before in the same forward, and how often."""

_STANDINS: weakref.WeakValueDictionary[str, Standin] = weakref.WeakValueDictionary()
_KEYS = itertools.count()


class Standin:
    """A captured graph, bound to the modules it calls, while it may stand in for their Python.

    Args:
        captured: The graph.
        root: The cloned model.
        table: Where its readings go.
        run: What is due.
        calls: Counters of the targets that are called from elsewhere too.

    Attributes:
        captured: The graph with its guards.
        part: The module whose forward it stands in for.
    """

    def __init__(
        self,
        captured: CapturedGraph,
        root: nn.Module,
        table: SlotTable,
        run: Run,
        calls: Mapping[str, Calls],
    ) -> None:
        self.captured = captured
        self.table = table
        self.run = run
        self.part = root.get_submodule(captured.part)
        self.calls = [(k, calls[k], n) for k, n in captured.seen.calls.items() if k in calls]
        modules = dict(self.part.named_modules(remove_duplicate=False))
        called = {str(n.target) for n in captured.graph.nodes if n.op == "call_module"}
        self.modules = {name: modules[name] for name in called}
        self.forwards = {name: module.forward for name, module in self.modules.items()}
        self.guards = captured.guards.bind(root, captured.part)
        self.probed: dict[tuple[Mode | None, Starts], fx.Graph] = {}
        self.key = f"{next(_KEYS)}"
        _STANDINS[self.key] = self

    def holds(self) -> bool:
        """Whether running the graph is, now, the same as running the model's Python."""
        if torch.compiler.is_compiling():
            # The compiler itself asks the rest while it traces, and not at each call.
            return self.guards.values_hold() and _ran_the_same(self.key)
        return self.guards.hold()

    def function(self, mode: Mode | None) -> Callable[..., Any]:
        """The graph as a function that makes the due readings; made once for each set.

        Without a mode it makes none: only the edits are in it.
        """
        starts = self._count_calls() if mode else ()
        counts = "_".join(f"{i}x{count}" for i, count in starts)
        place = f"{mode}_{self.run.due_key}_{counts}" if mode else "edited"
        if torch.compiler.is_compiling():
            # This may be traced twice, and has to go the same way both times.
            place = f"{place}_compiled"
            _make_compiled(self.key, mode, starts, place)
        elif not hasattr(self, place):
            self.make_function(mode, starts, place, None)
        made = getattr(self, place)
        observer = self.run.observer
        if observer is None or mode is None:
            return made
        return observer.unless_failed(self._followed_now, observer, mode, starts) or made

    def make_function(
        self, mode: Mode | None, starts: Starts, place: str, board: Board | None
    ) -> None:
        """Makes the function for what is due now an attribute of its own.

        The compiler sees one that was set while it traced, but not a new entry of a dictionary
        that it has read before.
        """
        if not hasattr(self, place):
            graph = self.probed_graph(mode, starts)
            due = self.run.due if mode else frozenset()
            setattr(self, place, compile_due(graph, due, self.part, self.forwards, board))

    def _followed_now(self, observer: Observer, mode: Mode, starts: Starts) -> Callable[..., Any]:
        due = specialize(self.probed_graph(mode, starts), self.run.due, self.part)
        return self.followed(observer, due)

    def followed(self, observer: Observer, graph: fx.Graph) -> Callable[..., Any]:
        """A graph as a function, with an observer told of all calls and of what its nodes make.

        Args:
            observer: What follows the forward under way.
            graph: The captured graph, or what the passes made of it.
        """

        def make(wrap: Wrap, at: Callable[..., Any]) -> Callable[..., Any]:
            forwards = {n: at(self.modules[n], forward) for n, forward in self.forwards.items()}
            return emit(graph, forwards, wrap)

        return observer.through(self.captured, make)

    def _count_calls(self) -> Starts:
        """Counts the calls that the graph makes; returns how often targets were called before."""
        starts = []
        for i, (_, calls, made) in enumerate(self.calls):
            if calls.count:
                starts.append((i, calls.count))
            calls.count += made
        return tuple(starts)

    def probed_graph(self, mode: Mode | None, starts: Starts = ()) -> fx.Graph:
        """The graph with a probe for every planned reading, or with its edits alone."""
        if (mode, starts) not in self.probed:
            before = {self.calls[i][0]: count for i, count in starts}
            made = probe_graph(self.captured.graph, self.part, self.table, mode, before)
            self.probed[mode, starts] = made
        return self.probed[mode, starts]


@torch.compiler.assume_constant_result
def _make_compiled(key: str, mode: Mode | None, starts: Starts, place: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    standin = _STANDINS[key]
    standin.make_function(mode, starts, place, standin.table.board)
    return True


@torch.compiler.assume_constant_result
def _ran_the_same(key: str) -> bool:
    return _STANDINS[key].guards.runs_the_same()
