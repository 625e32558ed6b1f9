"""The graph of an instrumented model, as torch.fx and its users take it: to run and to edit."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import fx, nn

from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.own_passes import Check, named_marks
from taiyi_fx.passes.rewrite.pipeline import probe_graph

if TYPE_CHECKING:
    from taiyi_fx.passes.runtime.install import Installation


class ShownGraph:
    """The training forward as a graph, where the model is one graph; else one call of its Python.

    In it `enter` and `leave` stand where probes are: they hand on what passes, whoever runs them.
    It is a copy, so that an edit that is half made runs nowhere; `recompile` puts it to use.

    Attributes:
        is_edited: Whether an edited graph runs in the model's place.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._shown: fx.Graph | None = None
        self._check: Check | None = None
        self.is_edited = False

    @property
    def graph(self) -> fx.Graph:
        """The graph."""
        if self._shown is None:
            graphs = self._installation.dispatchers[""].graphs
            self._shown = named_marks(copy.deepcopy(graphs[0].graph)) if graphs else _of_python()
            self._check = Check(self._shown, self._installation.root) if graphs else None
        return self._shown

    @graph.setter
    def graph(self, graph: fx.Graph) -> None:
        _ = self.graph  # what it has to keep is known of the one before
        self._shown = graph

    def written(self) -> fx.GraphModule:
        """The model as a graph module without marks, which code of torch's alone can run."""
        shown, root = self.graph, self._installation.root
        bare = probe_graph(shown, Context(root, self._installation.table, None))
        return fx.GraphModule(root, bare)

    def recompile(self) -> None:
        """Runs the graph as it is now at each call from here on, whatever is due.

        Raises:
            TypeError: The model is not one graph.
            ValueError: The graph cannot run in the model's place.
            LookupError: It names a module or tensor that the model does not have.
        """
        shown = self.graph
        if self._check is None:
            raise TypeError(
                "the model did not become one graph, and what stayed Python has none to edit: "
                "print(taiyi_fx.capture_of(model)) says why"
            )
        shown.lint()
        self._check(shown)
        self._installation.rewrite_root(copy.deepcopy(shown))
        self.is_edited = True


class AsEdited:
    """A pass that gives the graph of another model of the same parts, as it was edited."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = copy.deepcopy(graph)

    def __call__(self, graph: fx.Graph, part: nn.Module) -> fx.Graph:
        """The edited graph."""
        return copy.deepcopy(self.graph)

    def __reduce__(self) -> Any:  # pickle's own untyped protocol
        raise TypeError("the graph of this instrumented model was edited, and cannot be pickled")


def python_forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stands, in a graph to look at, for a forward that stayed Python."""
    raise RuntimeError("this graph shows a forward that stayed Python; call the module instead")


def _of_python() -> fx.Graph:
    graph = fx.Graph()
    args, kwargs = graph.placeholder("*args"), graph.placeholder("**kwargs")
    graph.output(graph.call_function(python_forward, (args, kwargs)))
    return graph
