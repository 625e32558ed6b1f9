"""Size and direction of the gradients that reach a module's output."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.places import output_grad, previous
from taiyi_fx.quantity import quantity
from taiyi_fx.reductions import accumulated


@quantity("OutputGradSndNorm", norm=output_grad.norm)
def output_grad_snd_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the loss's gradient with respect to the output, ||g_y||_2."""
    return norm


@quantity("OutputGradNorm", norm=output_grad.norm)
def output_grad_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the output's gradient, ||g_y||_2: another name of OutputGradSndNorm."""
    return norm


@quantity("OutputGradRMS", norm=output_grad.norm, n=output_grad.count)
def output_grad_rms(norm: Tensor, n: Tensor) -> Tensor:
    """Root mean square of the output's gradient over its elements, ||g_y||_2 / sqrt(numel)."""
    return norm / n.to(norm.dtype).sqrt()


@quantity("OutputGradAbsMax", largest=output_grad.abs_max)
def output_grad_abs_max(largest: Tensor) -> Tensor:
    """Largest absolute value in the output's gradient."""
    return largest


@quantity("OutputGradCorrelation", g=output_grad.raw, before=previous(output_grad.raw))
def output_grad_correlation(g: Tensor, before: Tensor | None) -> Tensor | dict[str, Tensor]:
    """Cosine of the output's gradient with that of the previous due step, in [-1, 1].

    <g_t, g_{t-1}> / (||g_t|| ||g_{t-1}||). No record at the first due step and where the shapes
    differ, as in a smaller last batch. Zero gradients have none: NaN. Keeps a whole gradient from
    one due step to the next.
    """
    if before is None or before.shape != g.shape:
        return {}
    a, b = (accumulated(t).reshape(-1) for t in (g, before))
    # Scaled by their largest elements first: squares of tiny gradients would underflow.
    a, b = (t / t.abs().amax() for t in (a, b))
    return (a @ b / (torch.linalg.vector_norm(a) * torch.linalg.vector_norm(b))).clamp(-1, 1)
