"""Other optimizers of the same class and options, of the parameters that stand in for others."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from taiyi_fx.step_checks.untried import Untried

_LOW = 0.1
"""The part of its initial rate below which a group's is one of a warm-up."""


def copies_of(
    optimizers: Sequence[Optimizer], copies: Mapping[int, nn.Parameter]
) -> list[Optimizer]:
    """Optimizers of the same class and options, of the copies, without what they have gathered.

    Args:
        optimizers: The optimizers.
        copies: The parameters that stand in for others, by the identity of these.
    """
    return [_copy_of(optimizer, copies) for optimizer in optimizers]


def _copy_of(optimizer: Optimizer, copies: Mapping[int, nn.Parameter]) -> Optimizer:
    groups: list[dict[str, Any]] = [
        {**group, "params": [copies[id(p)] for p in group["params"] if id(p) in copies]}
        for group in optimizer.param_groups
    ]
    accepted = {*inspect.signature(type(optimizer).__init__).parameters}
    options = {name: x for name, x in optimizer.defaults.items() if name in accepted}
    return type(optimizer)(groups, **options)


def trained_by(optimizers: Sequence[Optimizer]) -> list[nn.Parameter]:
    """The parameters that optimizers have."""
    return [p for one in optimizers for group in one.param_groups for p in group["params"]]


def refuse_low_rates(optimizers: Sequence[Optimizer]) -> None:
    """Does nothing where the learning rates are what they will be.

    Raises:
        Untried: A schedule has brought one down for now.
    """
    for group in (group for one in optimizers for group in one.param_groups):
        if group["lr"] < _LOW * group.get("initial_lr", 0.0):
            raise Untried(f"the learning rate is at {group['lr']:.3g} by its schedule")
