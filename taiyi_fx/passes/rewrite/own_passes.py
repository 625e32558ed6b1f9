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
from taiyi_fx.passes.rewrite.insert_probes import probe_name
from taiyi_fx.passes.rewrite.pipeline import run_pass

Pass = Callable[[fx.Graph, nn.Module], fx.Graph]
"""A graph, and the module that its nodes name modules and tensors from, to the graph to run."""

META = "taiyi_fx"
"""The key in a node's meta that tells nodes of taiyi_fx from the model's."""


def check_passes(passes: Any) -> tuple[Pass, ...]:
    """The passes, if that is what they are.

    Raises:
        TypeError: They are no list, or one is not callable.
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
    """The capture with each graph as the passes, one after another, made it.

    They come before probes: what is read is what the graphs, as they left them, compute.

    Raises:
        ValueError: There is no graph, or a pass made none that can stand for the model's.
        LookupError: A graph names a module or tensor that the model does not have.
        TypeError: A pass returned something else than a graph.
        Exception: Whatever a pass raised, with a note that names it.
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
    part = model.get_submodule(captured.part)
    for apply in passes:
        graph = run_pass(apply, graph, part, check=Check(graph, part))
    inlined_calls = list(_still_inlined(captured.log.inlined_calls, graph))
    log = dataclasses.replace(captured.log, inlined_calls=inlined_calls)
    return dataclasses.replace(captured, graph=graph, log=log)


def named_marks(graph: fx.Graph) -> fx.Graph:
    """The graph, with nodes of taiyi_fx that say in their meta what they are."""
    for node in graph.nodes:
        if is_mark(node) or node.target in (pack, unpack):
            node.meta[META] = _place(node) if is_mark(node) else "arguments"
    return graph


def _place(mark: fx.Node) -> str:
    _, module, call = mark.args
    return probe_name(mark.target, str(module), int(str(call)))


class Check:
    """The conditions on the graph that a pass makes of another, taken before it is made.

    Args:
        graph: The graph before the pass.
        part: The module that its nodes name modules and tensors from.
    """

    def __init__(self, graph: fx.Graph, part: nn.Module) -> None:
        self.inputs = _inputs(graph)
        self.places = _places(graph)
        self.part = part

    def __call__(self, made: fx.Graph) -> None:
        """Refuses what cannot stand for the graph before the pass.

        Raises:
            ValueError: Its inputs or the places of readings and edits are others, or it has not
                one output.
            LookupError: It names a module or tensor that the model does not have.
        """
        if _inputs(made) != self.inputs:
            raise ValueError(f"its inputs are {_inputs(made)}, where they were {self.inputs}")
        if len(made.find_nodes(op="output")) != 1:
            raise ValueError("a graph has one output")
        self._check_places(_places(made))
        self._check_names(made)
        made.python_code("self")  # what cannot be written as code fails here

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
    """The calls whose nodes are still there, of modules of which all are."""
    names = {node.name for node in graph.nodes}
    broken = {p.module for p in calls if not names.issuperset((*p.inputs, *p.outputs))}
    return (p for p in calls if p.module not in broken)
