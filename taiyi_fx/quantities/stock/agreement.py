"""The gradient that a weight has, beside the one that its layer makes."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import pair, weight_grad
from taiyi_fx.quantities.stock.similarity import cosine
from taiyi_fx.reductions import NoiseValue, ratio


@quantity(
    "WeightGradAgreement",
    unit="cosine",
    accuracy="1e-4 absolute",
    g=weight_grad.raw,
    own=pair.noise,
)
def weight_grad_agreement(g: Tensor, own: NoiseValue) -> Tensor:
    """Cosine of the weight's gradient, as `track` finds it, with the one that its layer makes.

    That is computed from the layer's input and its output's gradient, of the layers that have
    `PerSampleGradNorm`. It is 1 unless something changes the gradient in between: a hook, code that
    writes into it, gradients that are not cleared between steps, or another layer with the same
    weight. NaN where one of both is zero.

    Formula: <W.grad, sum_t g_t x_t^T> / (||W.grad||_2 ||sum_t g_t x_t^T||_2)
    """
    return cosine(torch.view_as_real(g) if g.is_complex() else g, own.direction)


@quantity(
    "WeightGradExcess",
    unit="ratio",
    accuracy="1e-4",
    size=weight_grad.norm,
    own=pair.noise,
)
def weight_grad_excess(size: Tensor, own: NoiseValue) -> Tensor:
    """Norm of the weight's gradient over the norm of the one that its layer makes.

    As of `WeightGradAgreement`; 1 unless something changes the gradient in between.

    Formula: ||W.grad||_2 / ||sum_t g_t x_t^T||_2
    """
    return ratio(size, own.square_norm.sqrt())
