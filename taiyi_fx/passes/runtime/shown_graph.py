"""The graph of an instrumented model in torch.fx's form, to run and to edit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import fx

from taiyi_fx.passes.override import entry_of
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.own_passes import Check, named_marks
from taiyi_fx.passes.rewrite.pipeline import probe_graph

if TYPE_CHECKING:
    from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
    from taiyi_fx.passes.runtime.install import Installation

_NO_GRAPH = "the model did not become one graph, or has changed since, and what is Python has none"
_ASK = "print(taiyi_fx.capture_of(model)) says why"


class ShownGraph:
    """The forward in the model's mode as a graph; one call of its Python, if that is no graph now.

    In it `enter` and `leave` mark the places of probes: they return their input. It is a copy, so
    that an unfinished edit runs nowhere; `recompile` puts it to use. Where the model's code depends
    on the mode, training and evaluation have a graph each.
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
        return self._graph_of(self._present(self._installation.root.training))

    @graph.setter
    def graph(self, graph: fx.Graph) -> None:
        self._set(self._installation.root.training, graph)

    def written(self) -> fx.GraphModule:
        """The model as a graph module without marks, which needs torch alone to run.

        Raises:
            TypeError: The model is not one graph.
        """
        root = self._installation.root
        captured = self._present(root.training)
        if captured is None:
            raise TypeError(f"{_NO_GRAPH} to write: {_ASK}")
        shown = self._graph_of(captured)
        bare = probe_graph(shown, Context(root, self._installation.table, None))
        return fx.GraphModule(root, bare)

    def recompile(self) -> None:
        """Takes over the graph as it is now: it runs at each call in the model's mode from here on.

        Raises:
            TypeError: The model is not one graph.
            ValueError: The graph cannot run in the model's place.
            LookupError: It names a module or tensor that the model does not have.
        """
        self._recompile(self._installation.root.training)

    def take_edits(self, other: ShownGraph) -> None:
        """Takes over the edited graphs of another model with the same parts."""
        for training, graph in other._edits.items():
            self._set(training, copy.deepcopy(graph))
            self._recompile(training)

    def _recompile(self, training: bool) -> None:
        captured = self._present(training)
        shown = self._graph_of(captured)
        if captured is None:
            raise TypeError(f"{_NO_GRAPH} to edit: {_ASK}")
        shown.lint()
        self._checks[captured](shown)
        self._edits[training or not captured.follows_mode] = graph = copy.deepcopy(shown)
        self._installation.rewrite_root(captured, graph)

    def _present(self, training: bool) -> GuardedGraph | None:
        """The graph of a mode, if the model still computes that; an edited one always stands."""
        found, root = self._at(training), self._installation.root
        if found is None or found.is_edited or training is not root.training:
            return found
        is_wrapped = entry_of(root) is not None
        return None if is_wrapped or not found.guards_pass() else found

    def _at(self, training: bool) -> GuardedGraph | None:
        """The captured graph of a mode; that of evaluation is captured at first use."""
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
        self._graph_of(captured)  # kept for the check of the edited one
        self._shown[captured] = graph


def python_forward(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
    """The forward of a model that stayed Python; an interpreter gives ``**kwargs`` no names."""
    return call(*args, **dict(kwargs))


def _of_python() -> fx.Graph:
    # It names the model, as other graphs name its parts, and holds none: a pickle of it has no
    # weights, and a copy of a graph module has its own.
    graph = fx.Graph()
    args, kwargs = graph.placeholder("*args"), graph.placeholder("**kwargs")
    call = graph.create_node("get_attr", "__call__")
    graph.output(graph.call_function(python_forward, (call, args, kwargs)))
    return graph
