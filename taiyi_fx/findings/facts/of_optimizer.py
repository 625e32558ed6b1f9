"""Settings of the optimizers' groups that no number tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class GroupSettings(NamedTuple):
    """Settings of one group of parameters.

    Attributes:
        modules: The modules with parameters in it.
        momentum: The share of a step that goes on in the next: ``momentum``, or the first of
            ``betas``; 0 of others.
        maximizes: True if its steps go uphill.
    """

    modules: tuple[str, ...]
    momentum: float
    maximizes: bool


def group_settings_of(
    modules: Mapping[str, Any], optimizers: Sequence[Any]
) -> tuple[GroupSettings, ...]:
    """The settings of each group of some optimizers, in order.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
        optimizers: Those that train the model, whose groups are counted through.
    """
    every = [group for optimizer in optimizers for group in optimizer.param_groups]
    return tuple(_settings(group, modules) for group in every)


def _settings(group: Mapping[str, Any], modules: Mapping[str, Any]) -> GroupSettings:
    own = {id(parameter) for parameter in group["params"]}
    names = (n for n, m in modules.items() if own & {id(p) for p in m._parameters.values()})
    betas = group.get("betas")
    first = betas[0] if isinstance(betas, (tuple, list)) and betas else group.get("momentum")
    momentum = float(first) if isinstance(first, (int, float)) else 0.0
    return GroupSettings(tuple(names), momentum, bool(group.get("maximize")))
