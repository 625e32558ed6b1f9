"""Size of weights and their gradients, and how many weights change their sign."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import previous, weight, weight_grad


@quantity("WeightNorm", accuracy="1e-5", health="lasting", batched=True, norm=weight.norm)
def weight_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the weight.

    Formula: ||W||_2
    """
    return norm


@quantity("WeightGradNorm", accuracy="1e-5", batched=True, norm=weight_grad.norm)
def weight_grad_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the weight's gradient as it is at ``track``; none for a frozen weight.

    Formula: ||g_W||_2
    """
    return norm


@quantity(
    "WeightParamJump",
    unit="elements",
    accuracy="exact",
    now=weight.sign,
    before=previous(weight.sign),
)
def weight_param_jump(now: Tensor, before: Tensor | None) -> Tensor:
    """Number of weights whose sign flipped since the previous due step.

    Zero at the first. Signs are kept, not weights.

    Formula: count of w_t w_(t-1) < 0
    """
    if before is None or before.shape != now.shape:
        return torch.zeros((), dtype=torch.int64, device=now.device)
    return (now * before < 0).sum()
