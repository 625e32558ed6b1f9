"""The graph of an instrumented model, as torch.fx and its users take it: to run and to edit."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import fx

from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.own_passes import Check, named_marks
from taiyi_fx.passes.rewrite.pipeline import probe_graph

if TYPE_CHECKING:
    from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
    from taiyi_fx.passes.runtime.install import Installation


class ShownGraph:
    """The forward in the model's mode as a graph, or a call of its Python, where that is none.

    In it `enter` and `leave` stand where probes are: they hand on what passes, whoever runs them.
    It is a copy, so that an edit that is half made runs nowhere; `recompile` puts it to use. Where
    the model's code asks for the mode, training and evaluation have a graph each.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._captured: list[GuardedGraph | None] = [*installation.dispatchers[""].graphs] or [None]
        self._shown: dict[GuardedGraph | None, fx.Graph] = {None: _of_python()}
        self._checks: dict[GuardedGraph, Check] = {}
        self._edits: dict[bool, fx.Graph] = {}

    @property
    def is_edited(self) -> bool:
        """True if an edited graph runs in the model's place."""
        return bool(self._edits)

    @property
    def graph(self) -> fx.Graph:
        """The graph."""
        return self._graph_of(self._at(self._installation.root.training))

    @graph.setter
    def graph(self, graph: fx.Graph) -> None:
        self._set(self._installation.root.training, graph)

    def written(self) -> fx.GraphModule:
        """The model as a graph module without marks, which code of torch's alone can run."""
        shown, root = self.graph, self._installation.root
        bare = probe_graph(shown, Context(root, self._installation.table, None))
        return fx.GraphModule(root, bare)

    def recompile(self) -> None:
        """Runs the graph as it is now at each call in the model's mode from here on.

        Raises:
            TypeError: The model is not one graph.
            ValueError: The graph cannot run in the model's place.
            LookupError: It names a module or tensor that the model does not have.
        """
        self._recompile(self._installation.root.training)

    def take_edits(self, other: ShownGraph) -> None:
        """Runs the graphs that run in place of another model of the same parts."""
        for training, graph in other._edits.items():
            self._set(training, copy.deepcopy(graph))
            self._recompile(training)

    def _recompile(self, training: bool) -> None:
        captured = self._at(training)
        shown = self._graph_of(captured)
        if captured is None:
            raise TypeError(
                "the model did not become one graph, and what stayed Python has none to edit: "
                "print(taiyi_fx.capture_of(model)) says why"
            )
        shown.lint()
        self._checks[captured](shown)
        self._edits[training or not captured.follows_mode] = graph = copy.deepcopy(shown)
        self._installation.rewrite_root(captured, graph)

    def _at(self, training: bool) -> GuardedGraph | None:
        """The captured graph of a mode; that of evaluation is captured when first asked for."""
        first = self._captured[0]
        if training or first is None or not first.follows_mode:
            return first
        if len(self._captured) == 1:
            self._captured.append(self._installation.capture_evaluation())
        return self._captured[1]

    def _graph_of(self, captured: GuardedGraph | None) -> fx.Graph:
        if captured is not None and captured not in self._shown:
            shown = self._shown[captured] = named_marks(copy.deepcopy(captured.graph))
            self._checks[captured] = Check(shown, self._installation.root)
        return self._shown[captured]

    def _set(self, training: bool, graph: fx.Graph) -> None:
        captured = self._at(training)
        self._graph_of(captured)  # what an edit has to keep is known of the one before
        self._shown[captured] = graph


def python_forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stands, in a graph to look at, for a forward that stayed Python."""
    raise RuntimeError("this graph shows a forward that stayed Python; call the module instead")


def _of_python() -> fx.Graph:
    graph = fx.Graph()
    args, kwargs = graph.placeholder("*args"), graph.placeholder("**kwargs")
    graph.output(graph.call_function(python_forward, (args, kwargs)))
    return graph
