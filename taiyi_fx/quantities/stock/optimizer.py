"""The optimizer's state of each parameter: moments, the step they make, and what of it is lost.

Records are named after the parameter: ``FirstMoment.weight``. The optimizer has to be known, by
``instrument(..., optimizer=optimizer)`` or ``monitor.watch_optimizer``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import first_moment, optimizer_step, second_moment
from taiyi_fx.reductions import StepValue, ratio


@quantity("FirstMoment", accuracy="1e-5", batched=True, norm=first_moment.norm)
def first_moment_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the optimizer's running mean of each parameter's gradient.

    As it is at ``track``, after the steps before; bias-corrected where the optimizer does that. Of
    Adam, AdamW, NAdam, RAdam and Adamax; of SGD and Muon the momentum, which in SGD is a sum.

    Formula: ||m / (1 - beta_1^t)||_2
    Source: arXiv 1412.6980
    """
    return norm


@quantity("SecondMoment", accuracy="1e-5", batched=True, norm=second_moment.norm)
def second_moment_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the optimizer's running mean of each parameter's squared gradient.

    As it is at ``track``, after the steps before; bias-corrected where the optimizer does that. Of
    Adam, AdamW, NAdam, RAdam, RMSprop and Adafactor; of Adagrad the sum of squares.

    Formula: ||v / (1 - beta_2^t)||_2
    Source: arXiv 1412.6980
    """
    return norm


@quantity("EffectiveStep", accuracy="1e-5", batched=True, step=optimizer_step)
def effective_step(step: StepValue) -> Tensor:
    """Root mean square of what the optimizer moves each element of a parameter by.

    As computed, before the parameter's format rounds it, and without weight decay that is apart
    from it. Of Adam, AdamW, SGD and RMSprop with momentum it is the last step, at the learning rate
    of the next; of Nesterov's momentum, SGD and RMSprop without, Adagrad and Adafactor, whose steps
    are made of the gradient, the step to come with the gradient as it is at ``track``.

    Formula: RMS(lr m / (sqrt(v) + eps)), m and v bias-corrected
    Source: arXiv 1412.6980
    """
    return step.norm / step.n.to(step.norm.dtype).sqrt()


@quantity("UpdateLost", unit="share", accuracy="1e-5 absolute", batched=True, step=optimizer_step)
def update_lost(step: StepValue) -> Tensor:
    """Share of a parameter's elements that stay as they are, as its format rounds the step away.

    Of those whose step, as `EffectiveStep` has it, is not zero; 0 where there are none, and NaN
    where a step is not finite. The step is subtracted from the parameter as it is now and rounded
    to nearest: near 1 for long, training has stopped. In bfloat16 that is any step below about
    1/512 of the element; then keep parameters in float32, or round stochastically.

    Formula: (elements with u != 0 and p - u = p in the format of p) / (elements with u != 0)
    """
    share = torch.where(step.moving == 0, 0.0, ratio(step.lost, step.moving))
    return torch.where(step.norm.isfinite(), share, torch.nan)
