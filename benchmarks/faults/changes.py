"""Changes that several faults make: of a forward, and of the groups of an optimizer."""

from __future__ import annotations

from typing import Any

from torch import nn

from benchmarks.faults.training import Training


def change_class(module: nn.Module, forward: Any) -> None:
    """Gives a module a forward of its own; `forward` takes it, the old forward and the inputs."""
    old = type(module)

    def new(self: nn.Module, *args: Any) -> Any:
        return forward(self, lambda *xs: old.forward(self, *xs), *args)

    module.__class__ = type(f"Changed{old.__name__}", (old,), {"forward": new})


def give_group(t: Training, module: nn.Module, **options: Any) -> None:
    """Moves the parameters of a module to a group of the optimizer of their own."""
    own = {id(parameter) for parameter in module.parameters()}
    moved = []
    for group in t.optimizer.param_groups:
        moved += [p for p in group["params"] if id(p) in own]
        group["params"] = [p for p in group["params"] if id(p) not in own]
    t.optimizer.add_param_group({"params": moved, **options})


def rate(t: Training) -> float:
    """The learning rate of the first group."""
    return float(t.optimizer.param_groups[0]["lr"])


def set_all(t: Training, **options: Any) -> None:
    """Sets options of all groups of the optimizer."""
    for group in t.optimizer.param_groups:
        group.update(options)
