"""Size of the gradients that reach a module's output."""

from __future__ import annotations

from torch import Tensor

from taiyi_fx.places import output_grad
from taiyi_fx.quantity import quantity


@quantity("OutputGradSndNorm", norm=output_grad.norm)
def output_grad_snd_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the loss's gradient with respect to the output, ||g_y||_2."""
    return norm
