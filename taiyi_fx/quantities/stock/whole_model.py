"""The model as a whole and its optimizer, asked for under the key of the model itself."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import NoValue, quantity
from taiyi_fx.quantities.places import all_gradients, learning_rates, logged_losses

_FEWEST = 32
"""Losses before which there is no usual one yet."""
_TO_SIGMA = 1.4826
"""The median absolute deviation times this is the standard deviation of normal numbers."""


@quantity("GradNorm", accuracy="1e-5", norms=all_gradients)
def grad_norm(norms: Tensor) -> dict[str, Tensor]:
    """Euclidean norm of all gradients together, as they are at ``track``: before it clips them.

    Where the optimizer is known and has several parameter groups, also ``GradNorm.group0`` and so
    on, of each group's. Parameters without a gradient count as nothing.

    Formula: ||g||_2, g = all gradients as one vector
    """
    groups = norms[1:]
    return {"": norms[0], **(_by_group(groups) if len(groups) > 1 else {})}


@quantity("ClippedBy", unit="share", accuracy="1e-5 absolute", norms=all_gradients)
def clipped_by(norms: Tensor, *, max_norm: float) -> Tensor:
    """Share by which ``clip_grad_norm_(max_norm)`` would shorten the gradient.

    The option ``max_norm`` has to be given.

    Formula: max(0, 1 - max_norm / ||g||_2)
    """
    return (1 - max_norm / norms[0]).clamp(min=0)


@quantity("LearningRate", unit="rate", accuracy="exact", rates=learning_rates)
def learning_rate(rates: Tensor) -> dict[str, Tensor]:
    """Learning rate of the optimizer's next step; of several parameter groups that of each.

    These are ``LearningRate.group0`` and so on.

    Formula: lr
    """
    return {"": rates[0]} if len(rates) == 1 else _by_group(rates)


@quantity("LossSpike", unit="deviations", accuracy="1e-5", losses=logged_losses)
def loss_spike(losses: Tensor) -> Tensor:
    """Robust deviations of a logged loss from those before it: beyond 6 it is a spike.

    Of the first logged series with "loss" in its name. None before 32 losses were logged; where
    all before are equal, 0 of the same and Inf of another.

    Formula: (loss_t - m) / (1.4826 median |loss_s - m|), m = median loss_s, the last 128 s < t
    """
    last, before = losses[-1], losses[:-1]
    if len(before) < _FEWEST:
        raise NoValue(f"only {len(before)} losses were logged before, and it takes {_FEWEST}")
    middle = before.quantile(0.5)
    width = _TO_SIGMA * (before - middle).abs().quantile(0.5)
    return torch.where(last == middle, 0.0, (last - middle) / width)


def _by_group(values: Tensor) -> dict[str, Tensor]:
    return {f"group{i}": value for i, value in enumerate(values.unbind())}
