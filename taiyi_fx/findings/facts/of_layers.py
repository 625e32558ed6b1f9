"""Facts about single layers that no number tells: shares of dropout, settings of norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_TORCH, _NONE = "torch.nn.modules", "Identity"


class LayerSettings(NamedTuple):
    """Settings of a layer that training goes by.

    Attributes:
        drops: The share of elements that a dropout sets to zero; 0 of other layers.
        epsilon: What a norm adds to the variance; 0 of other layers.
        momentum: The weight of the latest batch in a BatchNorm's running statistics; 0 of others.
        is_moving: True for a BatchNorm that is frozen, though its running statistics move.
        kind: The class of an activation or a norm of torch, or ``"Identity"``; empty of others.
        is_unfed: True for a BatchNorm in evaluation mode whose running statistics no batch has ever
            changed: it divides by 1 and subtracts 0.
        is_at_rest: True for a frozen BatchNorm in evaluation mode: nothing of it moves.
    """

    drops: float = 0.0
    epsilon: float = 0.0
    momentum: float = 0.0
    is_moving: bool = False
    kind: str = ""
    is_unfed: bool = False
    is_at_rest: bool = False


def settings_of(modules: Mapping[str, Any]) -> dict[str, LayerSettings]:
    """The settings of the dropouts and norms among some modules, by name.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    known = ((name, _settings(module)) for name, module in modules.items())
    return {name: settings for name, settings in known if settings != LayerSettings()}


def _settings(module: Any) -> LayerSettings:
    kind, own = type(module).__name__, vars(module)
    if "Dropout" in kind:
        return LayerSettings(drops=_number(own.get("p")))
    if "Norm" not in kind:
        return LayerSettings(kind=kind if _is_plain(module) else "")
    has_statistics = module._buffers.get("running_var") is not None
    momentum = _number(own.get("momentum")) if has_statistics else 0.0
    weight = module._parameters.get("weight")
    is_frozen = weight is not None and not weight.requires_grad
    is_moving = is_frozen and module.training and momentum > 0
    of_torch = kind if type(module).__module__.startswith(_TORCH) else ""
    epsilon, is_unfed = _number(own.get("eps")), has_statistics and _is_unfed(module)
    is_at_rest = is_frozen and not module.training and momentum > 0
    return LayerSettings(0.0, epsilon, momentum, is_moving, of_torch, is_unfed, is_at_rest)


def _is_unfed(norm: Any) -> bool:
    """True for running statistics as they are made, in evaluation mode; it may wait for a device.

    A count of batches of 0 alone is not enough: weights that are converted may come without one.
    """
    count, mean, variance = (
        norm._buffers.get(name) for name in ("num_batches_tracked", "running_mean", "running_var")
    )
    if norm.training or count is None or mean is None or mean.device.type == "meta":
        return False
    return not (bool(count.any()) or bool(mean.any()) or bool((variance != 1).any()))


def _is_plain(module: Any) -> bool:
    """True for an activation of torch, and for what stands in the place of one."""
    path, kind = type(module).__module__, type(module).__name__
    is_activation = path == f"{_TORCH}.activation" and not module._parameters
    return is_activation or (kind == _NONE and path.startswith(_TORCH))


def _number(setting: Any) -> float:
    return float(setting) if isinstance(setting, (int, float)) else 0.0
