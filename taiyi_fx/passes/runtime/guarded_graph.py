"""A captured graph with guards that say when it may run in place of the model's Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx, nn
from torch.compiler import is_compiling

from taiyi_fx.passes.capture.captured import CapturedGraph
from taiyi_fx.passes.capture.lookup import in_class
from taiyi_fx.passes.flow.observer import Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.probes.compiling import constant_when_compiled
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.changes import called_modules
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import Wrap, emit, with_parameters_of
from taiyi_fx.passes.rewrite.pipeline import SPECIALIZE, run_passes
from taiyi_fx.passes.runtime.probed_graph import _GRAPHS, _NOTHING, Forward, ProbedGraph, forward_of
from taiyi_fx.passes.runtime.run import Calls, Run


class GuardedGraph(ProbedGraph):
    """A captured graph, bound to the modules that it calls, with its guards.

    Args:
        captured: The graph.
        root: The model.
        table: Takes its readings.
        run: The state of the forward under way, with the due readings.
        calls: Counters of the targets that are called from elsewhere too.

    Attributes:
        captured: The graph with its guards.
        training: The mode that it was captured in, if the model's code depends on it, or None.
        is_edited: True if another graph has replaced it.
    """

    is_edited = False

    def __init__(
        self,
        captured: CapturedGraph,
        root: nn.Module,
        table: SlotTable,
        run: Run,
        calls: Mapping[str, Calls],
    ) -> None:
        self.captured = captured
        part = submodule(root, captured.part)
        self.modules = called_modules(captured.graph, part)
        forwards = {name: forward_of(module) for name, module in self.modules.items()}
        made = captured.log.calls.items()
        counted = {name: (calls[name], count) for name, count in made if name in calls}
        super().__init__(captured.graph, part, forwards, table, run, counted)
        self._forward = in_class(type(part), "forward")
        self.guards = captured.guards.bind(root, captured.part, run)
        modes = (
            g.value for g in captured.guards if g.name == "training" and isinstance(g.value, bool)
        )
        self.training: bool | None = next(modes, None)

    @property
    def follows_mode(self) -> bool:
        """True if the model's code depends on its mode, training or evaluation."""
        return self.training is not None

    def rewrite(self, graph: fx.Graph) -> None:
        """Replaces the graph by another with the same inputs, parts and places."""
        self.modules = called_modules(graph, self.part)
        self.forwards = {name: forward_of(module) for name, module in self.modules.items()}
        self.take(graph)
        self.is_edited = True

    def guards_pass(self) -> bool:
        """True if the graph now computes the same as the model's Python."""
        if is_compiling():
            # The rest is checked once, while the compiler traces, and not at each call.
            return self.guards.values_hold() and _ran_the_same(self.key)
        return self.guards.hold()

    def function(
        self, mode: Mode | None, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NOTHING
    ) -> Forward:
        """The graph as a function that makes the due readings; an observer follows it."""
        observer = self.run.observer
        if observer is None or mode is None:
            return super().function(mode, args, kwargs)
        starts = self.count_calls()
        probed, context = self.probed_graph(mode, starts), self.context(mode)
        made = observer.unless_failed(self._followed_now, observer, probed, context)
        return made or self.made(mode, starts)

    def _built(self, graph: fx.Graph, context: Context) -> Forward:
        return with_parameters_of(super()._built(graph, context), self._forward)

    def _followed_now(self, observer: Observer, probed: fx.Graph, context: Context) -> Forward:
        return self.followed(observer, run_passes(SPECIALIZE, probed, context))

    def followed(self, observer: Observer, graph: fx.Graph) -> Callable[..., Any]:
        """A graph as a function that shows an observer all calls and the results of nodes.

        Args:
            observer: Follows the forward under way.
            graph: The captured graph, or the one that the passes made of it.
        """

        def make(wrap: Wrap, at: Callable[..., Any]) -> Callable[..., Any]:
            forwards = {n: at(self.modules[n], forward) for n, forward in self.forwards.items()}
            return with_parameters_of(emit(graph, forwards, wrap), self._forward)

        return observer.through(self.captured, make)


@constant_when_compiled
def _ran_the_same(key: str) -> bool:
    graph = _GRAPHS[key]
    assert isinstance(graph, GuardedGraph)
    return graph.guards.runs_the_same()
