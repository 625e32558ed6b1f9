"""Follows one forward of a copy of a model."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.capture.captured import CapturedGraph
from taiyi_fx.passes.flow.observer import Flow, Observer
from taiyi_fx.passes.module_tree import parameters_of, submodule
from taiyi_fx.passes.override import ForwardOverride
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.passes.runtime.run import Run

Graphs = Mapping[str, Sequence[CapturedGraph]]


def observe(
    model: nn.Module,
    python: Collection[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    graphs: Graphs = MappingProxyType({}),
) -> Flow:
    """The data flow of a forward on some inputs; leaves buffers and random states alone.

    Args:
        model: The model.
        python: Names of the modules whose forwards are followed.
        args: Positional arguments.
        kwargs: Keyword arguments.
        graphs: The graphs that may stand in for parts, whose nodes are followed too.
    """
    # Parameters, which no forward changes, are not copied.
    model = copy.deepcopy(model, {id(p): p for p in parameters_of(model)})
    observer, drawn = Observer(model, python), random_state()
    for override in [_FollowedGraph(model, part, observer, graphs[part]) for part in graphs]:
        override.put()
    try:
        with torch.enable_grad(), observer.watching():
            observer.around("", model, args, kwargs)
    finally:
        restore_random_state(drawn)
    return observer.flow


class _FollowedGraph(ForwardOverride):
    """Runs a graph, followed, where one stands in for a part's Python."""

    def __init__(
        self, root: nn.Module, part: str, observer: Observer, graphs: Sequence[CapturedGraph]
    ) -> None:
        super().__init__(submodule(root, part))
        self.observer = observer
        self.graphs = [GuardedGraph(g, root, SlotTable({}), Run(False), {}) for g in graphs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for graph in self.graphs:
            if graph.guards_pass():
                marked = graph.graph
                made = self.observer.unless_failed(graph.followed, self.observer, marked)
                if made is not None:
                    return made(self.module, *args, **kwargs)
        return self.original_forward()(*args, **kwargs)
