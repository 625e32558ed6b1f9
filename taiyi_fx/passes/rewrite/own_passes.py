"""Passes of the user's own: applied once to each graph of a model, and checked."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import fx, nn

from taiyi_fx.passes.capture.captured import Capture, CapturedGraph, InlinedCall
from taiyi_fx.passes.capture.marks import is_mark, pack, unpack
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.rewrite.insert_probes import probe_name
from taiyi_fx.passes.rewrite.pipeline import run_pass

Pass = Callable[[fx.Graph, nn.Module], fx.Graph]
"""A graph, and the module that its nodes name modules and tensors from, to the graph to run."""

META = "taiyi_fx"
"""The key in a node's meta that distinguishes nodes of taiyi_fx from the model's."""


def check_passes(passes: Any) -> tuple[Pass, ...]:
    """The passes as a tuple.

    Raises:
        TypeError: They are not a list, or one is not callable.
    """
    if not isinstance(passes, (list, tuple)):
        raise TypeError(
            "passes is a list of functions of a graph and a module, such as [my_pass], not "
            f"{passes!r}"
        )
    for i, apply in enumerate(passes):
        if not callable(apply):
            raise TypeError(f"passes[{i}] is a function of a graph and a module, not {apply!r}")
    return tuple(passes)


def apply_passes(capture: Capture, model: nn.Module, passes: Sequence[Pass]) -> Capture:
    """The capture with the passes applied in order to each graph.

    They run before probes are inserted, so readings are of the graphs that they made.

    Raises:
        ValueError: There is no graph, or a pass made one that cannot replace the model's.
        LookupError: A graph names a module or tensor that the model does not have.
        TypeError: A pass returned something else than a graph.
        Exception: Any that a pass raised, with a note that names the pass.
    """
    if not capture.graphs:
        raise ValueError(f"the passes have no graph to work on: {capture}")
    graphs = {
        name: [_rewritten(captured, model, passes) for captured in found]
        for name, found in capture.graphs.items()
    }
    return dataclasses.replace(capture, graphs=graphs)


def _rewritten(captured: CapturedGraph, model: nn.Module, passes: Sequence[Pass]) -> CapturedGraph:
    graph = named_marks(copy.deepcopy(captured.graph))
    part = submodule(model, captured.part)
    for apply in passes:
        graph = run_pass(apply, graph, part, check=Check(graph, part))
    inlined_calls = list(_still_inlined(captured.log.inlined_calls, graph))
    log = dataclasses.replace(captured.log, inlined_calls=inlined_calls)
    return dataclasses.replace(captured, graph=graph, log=log)


def named_marks(graph: fx.Graph) -> fx.Graph:
    """The graph, with the purpose of each node of taiyi_fx in its meta."""
    for node in graph.nodes:
        if is_mark(node) or node.target in (pack, unpack):
            node.meta[META] = _place(node) if is_mark(node) else "arguments"
    return graph


def _place(mark: fx.Node) -> str:
    _, module, call = mark.args
    return probe_name(mark.target, str(module), int(str(call)))


class Check:
    """The conditions that a pass's graph has to meet, recorded before the pass runs.

    Args:
        graph: The graph before the pass.
        part: The module that its nodes name modules and tensors from.
    """

    def __init__(self, graph: fx.Graph, part: nn.Module) -> None:
        self.inputs = _inputs(graph)
        self.places = _places(graph)
        self.part = part

    def __call__(self, made: fx.Graph) -> None:
        """Refuses a graph that cannot replace the one before the pass.

        Raises:
            ValueError: It has other inputs or other places of readings and edits, or not exactly
                one output.
            LookupError: It names a module or tensor that the model does not have.
        """
        if _inputs(made) != self.inputs:
            raise ValueError(f"its inputs are {_inputs(made)}, but they were {self.inputs}")
        if len(made.find_nodes(op="output")) != 1:
            raise ValueError("a graph needs exactly one output")
        self._check_places(_places(made))
        self._check_names(made)
        made.python_code("self")  # raises if it cannot be written as code

    def _check_places(self, made: Counter[str]) -> None:
        lost, doubled = self.places - made, made - self.places
        for found, what in ((lost, "are gone"), (doubled, "are there twice")):
            if found:
                raise ValueError(
                    f"places that the configuration reads or edits {what}: {', '.join(found)}; "
                    f"leave nodes with {META!r} in their meta where they are, or ask for less"
                )

    def _check_names(self, made: fx.Graph) -> None:
        for node in made.nodes:
            if node.op in ("call_module", "get_attr") and not _is_there(node, self.part):
                raise LookupError(
                    f"the node {node.name!r} names {node.target!r}, which the model does not "
                    "have: call a function instead, or add it to the model before instrument"
                )


def _inputs(graph: fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.find_nodes(op="placeholder")]


def _places(graph: fx.Graph) -> Counter[str]:
    return Counter(_place(node) for node in graph.nodes if is_mark(node))


def _is_there(node: fx.Node, part: nn.Module) -> bool:
    found: Any = part
    for name in str(node.target).split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return isinstance(found, nn.Module) or node.op == "get_attr"


def _still_inlined(calls: Sequence[InlinedCall], graph: fx.Graph) -> Iterator[InlinedCall]:
    """The calls of the modules whose nodes all still exist."""
    names = {node.name for node in graph.nodes}
    broken = {p.module for p in calls if not names.issuperset((*p.inputs, *p.outputs))}
    return (p for p in calls if p.module not in broken)
