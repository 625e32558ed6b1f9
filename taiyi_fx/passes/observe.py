"""One forward of a copy of a model, followed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.capture.captured import CapturedGraph
from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.flow import Flow, Observer
from taiyi_fx.passes.random_state import random_state, restore_random_state
from taiyi_fx.passes.run import Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.standin import Standin

Graphs = Mapping[str, Sequence[CapturedGraph]]


def observe(
    model: nn.Module,
    python: Collection[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    graphs: Graphs = MappingProxyType({}),
) -> Flow:
    """What a forward on some inputs shows; leaves buffers and random states alone.

    Args:
        model: The model.
        python: Names of the modules whose forwards are followed.
        args: Positional arguments.
        kwargs: Keyword arguments.
        graphs: The graphs that may stand in for parts, whose nodes are looked at too.
    """
    model = clone_tree(model, apart=True)
    for module in model.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            own = {k: None if b is None else b.clone() for k, b in module._buffers.items()}
            vars(module)["_buffers"] = own
    observer, drawn = Observer(model, python), random_state()
    for stand in [_GraphStand(model, part, observer, graphs[part]) for part in graphs]:
        vars(stand.module)["forward"] = stand
    try:
        with torch.enable_grad(), observer.watching():
            observer.around("", model, args, kwargs)
    finally:
        restore_random_state(drawn)
    return observer.flow


class _GraphStand(Stand):
    """Runs a graph, followed, where one stands in for a part's Python."""

    def __init__(
        self, root: nn.Module, part: str, observer: Observer, graphs: Sequence[CapturedGraph]
    ) -> None:
        super().__init__(root.get_submodule(part))
        self.observer = observer
        self.standins = [Standin(g, root, SlotTable({}), Run(False), {}) for g in graphs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for standin in self.standins:
            if standin.holds():
                marked = standin.captured.graph
                made = self.observer.unless_failed(standin.followed, self.observer, marked)
                if made is not None:
                    return made(self.module, *args, **kwargs)
        return self.plain(*args, **kwargs)
