"""Gradients sample by sample: their norms, and the noise of the batch's gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import NoValue, quantity
from taiyi_fx.quantities.places import pair
from taiyi_fx.reductions import NoiseValue, PerSampleValue


@quantity("PerSampleGradNorm", accuracy="1e-4", found=pair.sample_grad_norms)
def per_sample_grad_norm(found: PerSampleValue) -> Tensor:
    """Norm of each sample's gradient of the weight, for a loss that is a mean over samples.

    A vector in the order of the samples (axis 0); with ``reduce="mean"`` or ``"max"`` a number.
    Of Linear, Conv, Embedding, layer, RMS, group and instance norm, from the input and the output's
    gradient of the same call; no sample's gradient is formed where positions are few. None of a
    frozen weight, and none of batch norm, whose samples share their statistics.

    Formula: ||dL_i/dW||_2 = N ||sum_t g_it x_it^T||_2, L = mean_i L_i
    Source: Goodfellow 2015, arXiv 1510.01799; Li et al., arXiv 2110.05679
    """
    return found.norms * found.n


def noise_scale(found: Sequence[NoiseValue]) -> dict[str, Tensor]:
    """The noise scale over several layers of one model.

    Raises:
        NoValue: They saw different numbers of samples.
    """
    n = found[0].n.to(found[0].square_norm.dtype)
    if any(f.n != found[0].n for f in found[1:]):
        raise NoValue("its layers saw different numbers of samples")
    # For a mean over samples, N times a sample's share is its gradient.
    of_samples = n * torch.stack([f.square_norms for f in found]).sum()
    of_batch = torch.stack([f.square_norm for f in found]).sum()
    square_norm = (n * of_batch - of_samples) / (n - 1)
    trace = (of_samples - of_batch) / (1 - 1 / n)
    parts = {"": trace / square_norm, "trace": trace, "square_norm": square_norm}
    return {name: torch.where(n < 2, torch.nan, value) for name, value in parts.items()}


@quantity(
    "GradientNoiseScale",
    unit="samples",
    accuracy="1e-4 of either, beside their cancellation",
    found=pair.noise,
    over_all=noise_scale,
)
def gradient_noise_scale(found: NoiseValue) -> dict[str, Tensor]:
    """Batch size at which the gradient's noise is as large as its signal, for a layer's weight.

    Of the layers that have `PerSampleGradNorm`. The model's own series, of the module ``""``, comes
    with it: of all layers together that it is asked of, if no weight is used twice. Numerator and
    denominator are recorded as ``.trace`` and ``.square_norm``: the ratio of a single step is
    noisy, so average both over steps before dividing. The estimate of ||G||^2 is negative where
    noise prevails: then so is the ratio. NaN for a single sample.

    Formula: B_simple = tr(Sigma) / ||G||^2, both by the unbiased estimators for batches of 1 and N
    Source: arXiv 1812.06162, appendix A
    """
    return noise_scale([found])
