"""Signal beside the noise that a narrower format would add, of each tensor of a layer."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Elsewhere, also_at, quantity
from taiyi_fx.quantities.places import input, output, output_grad, weight, weight_grad
from taiyi_fx.reductions import NoiseOfFormat, NoiseOfFormatValue


@quantity("OutputSQNR", unit="dB", accuracy="1e-4", found=output.reduce(NoiseOfFormat))
def output_sqnr(found: NoiseOfFormatValue) -> dict[str, Tensor]:
    """Signal-to-noise ratio in decibels that the output would have in a narrower ``format``.

    While it is computed in a wider one. 6 dB are a bit of precision. Usual for normal numbers are
    31 in 8 bits with three of fraction, 26 with two, 19 to 21 in 4 bits, and there is little else:
    large numbers decide. Of float8 formats, the tensor's largest number is first brought to the
    format's largest, as training in them does. What becomes of the features beside them is in
    ``.typical``, the median over features of each one's own ratio. +Inf where nothing is lost, NaN
    of zeros. Gradients are rounded as they flow, with the loss scale.

    Formula: 20 log10(||y||_2 / ||round(y) - y||_2)
    Source: OCP Microscaling Formats 1.0; Rouhani et al. 2023, arXiv 2310.10537
    """
    signal, noise = (torch.linalg.vector_norm(n) for n in found)
    typical = _median(_decibels(*found)[found.signal > 0])
    return {"": _decibels(signal, noise), "typical": typical}


def _decibels(signal: Tensor, noise: Tensor) -> Tensor:
    return 20 * torch.log10(signal / noise)


def _median(x: Tensor) -> Tensor:
    """The median, NaN of nothing and of a NaN; `quantile` gives NaN of two infinite ones."""
    n = len(x)
    if not n:
        return x.new_full((), torch.nan)
    ordered = x.sort().values
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return torch.where(ordered[-1].isnan(), torch.nan, middle)


also_at(
    output_sqnr,
    {
        "InputSQNR": Elsewhere(input, "the input", "x"),
        "OutputGradSQNR": Elsewhere(output_grad, "the output's gradient", "g_y"),
        "WeightSQNR": Elsewhere(weight, "the weight", "W"),
        "WeightGradSQNR": Elsewhere(weight_grad, "the weight's gradient", "g_W"),
    },
)
