"""The result of a capture: a model's graphs, their guards, and what stayed Python and why."""

from __future__ import annotations

import html
import types
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from torch import fx, nn

from taiyi_fx.passes.capture.guards import Guards
from taiyi_fx.passes.ir import Function, FunctionGroup


@dataclass(frozen=True)
class TraceTargets:
    """The targets of a trace: the calls that get marks.

    Attributes:
        modules: Names of the modules whose calls are marked.
        functions: Functions, and groups of them, whose calls are marked, wherever a graph shows
            them.
        evaluation: True if forwards in evaluation mode are read too.
    """

    modules: Collection[str]
    functions: Collection[Function | FunctionGroup] = ()
    evaluation: bool = False

    def hides(self, module: nn.Module) -> bool:
        """True if a module of torch's own calls one of these inside, where no graph shows it."""
        groups = (f for f in self.functions if isinstance(f, FunctionGroup))
        return any(isinstance(module, group.modules) for group in groups)


@dataclass(frozen=True)
class InlinedCall:
    """The inputs and outputs of a call that went into a graph, by the names of nodes.

    Attributes:
        module: The module's name.
        inputs: The names of the nodes that made what was given.
        outputs: The names of those that made what was returned.
    """

    module: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class TraceLog:
    """The calls that one graph holds.

    Attributes:
        inlined: Modules whose forwards went into the graph.
        inlined_calls: The calls of these, but for the first and those that pass unknown structures.
        calls: How often each target was called.
        functions: The function of each call of one, by the name of its site.
        sites: The names of these sites, by that of the module whose forward makes the call.
        in_place: Sites whose call asks the function to change an input, or to write into another.
    """

    inlined: list[str] = field(default_factory=list)
    inlined_calls: list[InlinedCall] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    functions: dict[str, Function | FunctionGroup] = field(default_factory=dict)
    sites: dict[str, list[str]] = field(default_factory=dict)
    in_place: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class CapturedGraph:
    """A graph that stands in for the forward of a part while its guards hold.

    Attributes:
        part: The part's name; the nodes of its graph name modules and parameters from there.
        graph: The graph, with `enter` and `leave` marks around each call of a target.
        guards: All that the forwards in it rely on.
        log: The calls that it holds.
    """

    part: str
    graph: fx.Graph
    guards: Guards
    log: TraceLog


@dataclass(repr=False)
class Capture:
    """The graphs of a model, and the forwards that stayed Python.

    Attributes:
        graphs: Graphs by the name of the module whose forward they stand in for: one, or where
            evaluation is read too and goes another way, two. A model that is one graph has them
            at ``""``.
        python: Modules whose forward stayed Python, by name, and why.
        functions: The functions to be read, by the name of each site that calls one: in a graph,
            or in a forward that stayed Python, as far as its code shows.
        sites: The names of these sites, by that of the module whose forward makes the call.
        in_place: Sites whose call asks the function to change an input, or to write into another.
    """

    graphs: dict[str, list[CapturedGraph]] = field(default_factory=dict)
    python: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Function | FunctionGroup] = field(default_factory=dict)
    in_place: set[str] = field(default_factory=set)
    sites: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if the model is one graph."""
        return not self.python

    def __repr__(self) -> str:
        kept = f", {len(self.python)} forwards in Python" if self.python else ""
        return f"<{self._graphs()}{kept}>"

    def _repr_html_(self) -> str:
        """The text that a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        if self.is_whole:
            return self._graphs()
        by_reason: dict[str, list[str]] = {}
        for name, why in self.python.items():
            by_reason.setdefault(why, []).append(name or "the model itself")
        kept = "\n".join(f"  {_listed(names)}: {why}" for why, names in by_reason.items())
        return f"{self._graphs()}; Python stays in\n{kept}"

    def _graphs(self) -> str:
        if self.is_whole:
            return "one graph"
        held = {name for graphs in self.graphs.values() for g in graphs for name in g.log.inlined}
        many = "1 graph" if len(self.graphs) == 1 else f"{len(self.graphs)} graphs"
        forwards = "1 forward" if len(held) == 1 else f"{len(held)} forwards"
        return f"{many} of {forwards}" if self.graphs else "no graph"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def function_name(function: Function | FunctionGroup) -> str:
    """A function as users write it: ``operator.add``, ``scaled_dot_product_attention``."""
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, types.MethodDescriptorType):
        return f"Tensor.{name}"
    return f"operator.{name}" if getattr(function, "__module__", None) == "_operator" else name


def site_of(
    module: str, function: Function | FunctionGroup, known: Mapping[str, Function | FunctionGroup]
) -> str:
    """The name of the site where a module's forward calls a function.

    Args:
        module: The module's name.
        function: The function.
        known: The functions of other sites, by name; of two of one name, one has its home in it.
    """
    name = function_name(function)
    site = f"{module}.{name}()".lstrip(".")
    if known.get(site, function) is not function:
        site = f"{module}.{function.__module__}.{name}()".lstrip(".")
    return site
