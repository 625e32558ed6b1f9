"""A captured graph as functions: one for each set of due readings, made when first called."""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx, nn
from torch._C import _len_torch_function_stack

from taiyi_fx.passes.capture.marks import enter, leave, pack, unpack
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.override import entry_of, forward_of_class
from taiyi_fx.passes.probes.at_end import Sizes
from taiyi_fx.passes.probes.compiling import body_under_way, constant_when_compiled
from taiyi_fx.passes.probes.modes import are_modes_on, unseen
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import OWN
from taiyi_fx.passes.rewrite.pipeline import build_due, probe_graph, run_passes
from taiyi_fx.passes.rewrite.specialize import specialize
from taiyi_fx.passes.runtime.run import Calls, Run

Starts = tuple[tuple[int, int], ...]
"""The numbers of earlier calls of targets in the same forward."""

Forward = Callable[..., Any]

_NOTHING: Mapping[str, Any] = {}

_GRAPHS: weakref.WeakValueDictionary[str, ProbedGraph] = weakref.WeakValueDictionary()
_KEYS = itertools.count()


class Forms:
    """A graph's functions for the same readings: at once, or those of small tensors at its end.

    Args:
        make: Makes one of them: the latter, if its second argument is True.
    """

    def __init__(self, make: Callable[[Sizes, bool], Forward]) -> None:
        self._make = make
        self._sizes = Sizes()
        self._at_once = make(self._sizes, False)
        self._at_end: Forward | None = None

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Forward:
        """The function to call with some inputs."""
        if not (self._sizes.are_noted and self._sizes.begin(args, kwargs)):
            return self._at_once
        if self._at_end is None:
            self._at_end = self._make(self._sizes, True)
        return self._at_end


class ProbedGraph:
    """A marked graph of a module, with probes for the due readings.

    Args:
        graph: The graph, with marks around the calls of targets.
        part: The module that its nodes name modules and tensors from.
        forwards: The forward of each module that it calls, by name.
        table: Takes its readings.
        run: The state of the forward under way, with the due readings.
        calls: The counters of targets that are called from elsewhere too, and the number of calls
            in the graph, by name.
    """

    def __init__(
        self,
        graph: fx.Graph,
        part: nn.Module,
        forwards: Mapping[str, Forward],
        table: SlotTable,
        run: Run,
        calls: Mapping[str, tuple[Calls, int]],
    ) -> None:
        self.part = part
        self.forwards = forwards
        self.table = table
        self.run = run
        self._names = tuple(calls)
        self._calls = tuple(calls.values())
        self.version = ""
        self.take(graph)
        self.key = f"{next(_KEYS)}"
        _GRAPHS[self.key] = self

    def take(self, graph: fx.Graph) -> None:
        """Replaces the graph; functions are made again from the new one."""
        self.graph = graph
        self.probed: dict[tuple[Mode | None, Starts], fx.Graph] = {}
        self._made: dict[tuple[Mode | None, str, Starts, bool], Forms] = {}
        self.version += "i"  # not a number, which compiled code would make a variable

    def function(
        self, mode: Mode | None, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NOTHING
    ) -> Forward:
        """The graph as a function that makes the due readings.

        Args:
            mode: The mode of the readings. Without one it makes none: only the edits are in it.
            args: The inputs that it is called with.
            kwargs: Those by name.
        """
        starts = self.count_calls() if mode and self._calls else ()
        place = mode, self.run.due_key if mode else "", starts, _len_torch_function_stack() > 0
        forms = self._made.get(place)
        if forms is None:
            forms = self._made[place] = self._forms(mode, starts)
        return forms.of(args, kwargs)

    def compiled(self, mode: Mode | None, due_key: str) -> Forward:
        """The same for code that is being compiled.

        Args:
            mode: The mode of the readings.
            due_key: The name of the due readings. Of two ways to one object, as of this graph and
                its caller to their run, the compiler checks at each call that they are one, in
                Python.
        """
        starts = self._count_compiled_calls() if mode else ()
        # The compiler sees an attribute that was set while it traced, but not a new entry of a
        # dictionary that it has read before.
        counts = "_".join(f"{i}x{count}" for i, count in starts)
        place = f"compiled_{self.version}_{mode}_{due_key}_{counts}"
        _make_compiled(self.key, mode, starts, place)
        return getattr(self, place)

    def made(self, mode: Mode | None, starts: Starts, *, is_compiled: bool = False) -> Forward:
        """The function for the readings that are due now."""
        context = self.context(mode, is_compiled=is_compiled)
        return self._built(self._specialized(mode, starts, context), context)

    def _forms(self, mode: Mode | None, starts: Starts) -> Forms:
        context = self.context(mode)
        graph = self._specialized(mode, starts, context)

        def make(sizes: Sizes, at_end: bool) -> Forward:
            return self._built(graph, dataclasses.replace(context, sizes=sizes, at_end=at_end))

        return Forms(make)

    def _specialized(self, mode: Mode | None, starts: Starts, context: Context) -> fx.Graph:
        return run_passes((specialize,), self.probed_graph(mode, starts), context)

    def _built(self, graph: fx.Graph, context: Context) -> Forward:
        return build_due(graph, context, self.forwards)

    def context(self, mode: Mode | None, *, is_compiled: bool = False) -> Context:
        """The context of passes that make the graph for the readings that are due now."""
        return Context(
            self.part,
            self.table,
            mode,
            due=self.run.due if mode else frozenset(),
            are_modes_on=not is_compiled and are_modes_on(),
            is_compiled=is_compiled,
        )

    def count_calls(self) -> Starts:
        """Counts the calls that the graph makes; returns the numbers of earlier ones."""
        starts = []
        for i, (calls, made) in enumerate(self._calls):
            if calls.count:
                starts.append((i, calls.count))
            calls.count += made
        return tuple(starts)

    def _count_compiled_calls(self) -> Starts:
        """The same in compiled code, also in a checkpoint, which leaves no counter changed."""
        counts = tuple(_constant(calls.count) for calls, _ in self._calls)
        starts, made = _count(self.key, counts)
        for (calls, _), count in zip(self._calls, made, strict=True):
            if count:
                calls.count += count
        return starts

    def count_compiled(self, counts: tuple[int, ...]) -> tuple[Starts, tuple[int, ...]]:
        """The first calls that compiled code makes, and the new values of the counters.

        Args:
            counts: The values of the counters.
        """
        within, is_within = self.run.within(), bool(body_under_way())
        starts, ends = [], []
        for i, ((calls, made), count) in enumerate(zip(self._calls, counts, strict=True)):
            before = count + within.get(calls, 0)
            if before:
                starts.append((i, before))
            if is_within:
                within[calls] = within.get(calls, 0) + made
            ends.append(0 if is_within else made + within.pop(calls, 0))
        return tuple(starts), tuple(ends)

    def undo(self, mode: Mode) -> None:
        """Takes back the calls just counted, and restores the states from before the forward.

        A forward makes each call once.
        """
        held = self.table.board.held
        held.measure()
        unseen(held.settle)
        before = dict(self.table.before)
        for name, (calls, made) in zip(self._names, self._calls, strict=True):
            calls.count -= made
            for i in range(made):
                for slot in self.table.at(mode, name, calls.count + i).values():
                    slot.restore(before.get(slot))

    def probed_graph(self, mode: Mode | None, starts: Starts = ()) -> fx.Graph:
        """The graph with a probe for every planned reading, or with its edits alone."""
        if (mode, starts) not in self.probed:
            before = {self._names[i]: count for i, count in starts}
            made = probe_graph(self.graph, Context(self.part, self.table, mode, before))
            self.probed[mode, starts] = made
        return self.probed[mode, starts]


@constant_when_compiled
def _make_compiled(key: str, mode: Mode | None, starts: Starts, place: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    graph = _GRAPHS[key]
    if not hasattr(graph, place):
        setattr(graph, place, graph.made(mode, starts, is_compiled=True))
    return True


def _constant(count: int) -> int:
    """A count as a number that the compiler knows, even where it takes all for variables."""
    known = 0
    while known != count:
        known += 1
    return known


@constant_when_compiled
def _count(key: str, counts: tuple[int, ...]) -> tuple[Starts, tuple[int, ...]]:
    return _GRAPHS[key].count_compiled(counts)


def own_call(
    site: str,
    module: nn.Module,
    forward: Callable[[], Any],
    table: SlotTable,
    run: Run,
    calls: Calls,
    function: str = "",
) -> ProbedGraph:
    """The graph of one call of a target that stays Python.

    Args:
        site: The target's name.
        module: The module that is called, or that calls a function.
        forward: Returns the function to call at present.
        table: Takes its readings.
        run: The state of the forward under way, with the due readings.
        calls: The target's counter.
        function: The name of the function that is called, if it is one.
    """
    return ProbedGraph(
        _graph_of_call(site, function), module, {OWN: forward}, table, run, {site: (calls, 1)}
    )


def _graph_of_call(name: str, function: str) -> fx.Graph:
    graph = fx.Graph()
    args, kwargs = graph.placeholder("*args"), graph.placeholder("**kwargs")
    given = graph.call_function(
        enter, (graph.call_function(pack, (args, kwargs, function)), name, 0)
    )
    parts = [graph.call_function(unpack, (given, (part,))) for part in (".args", ".kwargs")]
    made = graph.create_node("call_module", OWN, tuple(parts))
    graph.output(graph.call_function(leave, (made, name, 0)))
    return graph


def forward_of(module: nn.Module) -> Forward:
    """The forward that a call of a module runs at present, without our overrides."""
    return entry_of(module) or forward_of_class(module)
