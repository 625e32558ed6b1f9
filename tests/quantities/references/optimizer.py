"""Optimizers' state and steps in float64, computed from what was captured around real steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def moment(state: Mapping[str, Any], key: str, beta: float) -> float:
    """The norm of a moment of Adam, divided by the sum of the weights of all gradients so far."""
    steps = int(state["step"])
    weights = sum((1 - beta) * beta**k for k in range(steps))
    return state[key].double().reshape(-1).norm().item() / weights


def adam_step(state: Mapping[str, Any], group: Mapping[str, Any]) -> Tensor:
    """Adam's last step."""
    steps = int(state["step"])
    m, v = (
        state[key].double() / (1 - beta**steps)
        for key, beta in zip(("exp_avg", "exp_avg_sq"), group["betas"], strict=True)
    )
    return float(group["lr"]) * m / (v**0.5 + group["eps"])


def root_mean_square(x: Tensor) -> float:
    """The root mean square of a tensor."""
    return x.double().square().mean().sqrt().item()


def lost(parameter: Tensor, step: Tensor) -> float:
    """The share of elements that a step leaves as they are, of those that it should move.

    By the distances to the neighbours in the parameter's format, not by rounding.
    """
    p, u = parameter.double().reshape(-1), -step.double().reshape(-1)
    away = torch.full_like(parameter, torch.inf).reshape(-1).copysign(u.to(parameter.dtype))
    near = parameter.reshape(-1)
    neighbour = torch.nextafter(near, away).double()
    stays = u.abs() < (neighbour - p).abs() / 2
    moving = u != 0
    return (stays & moving).sum().item() / max(moving.sum().item(), 1)
