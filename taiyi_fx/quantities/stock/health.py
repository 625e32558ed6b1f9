"""Numbers that warn: NaN and Inf, what a narrower format loses, outliers, distributions.

Those without a place in their name are of the output; each has siblings for the input, the
output's gradient, the weight or its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.binned import BY_POWER_OF_TWO
from taiyi_fx.quantities.declare import Defined, Elsewhere, also_at, quantity
from taiyi_fx.quantities.places import input, output, output_grad, weight, weight_grad
from taiyi_fx.reductions import (
    KurtosisValue,
    NonFinitesValue,
    OutOfRangeValue,
    QuantilesValue,
    ratio,
)

_INPUT = Elsewhere(input, "the input", "x")
_OUTPUT_GRAD = Elsewhere(output_grad, "the output's gradient", "g_y")
_WEIGHT = Elsewhere(weight, "the weight", "W")
_WEIGHT_GRAD = Elsewhere(weight_grad, "the weight's gradient", "g_W")


@quantity(
    "NonFinite",
    unit="elements",
    accuracy="exact",
    health="counts_non_finite",
    batched=True,
    found=output.non_finites,
)
def non_finite(found: NonFinitesValue) -> dict[str, Tensor]:
    """Number of elements of the output that are NaN or infinite.

    Both together, and each as ``.NaN`` and ``.Inf``. `Monitor.non_finite` names the first site of
    a step, in order of execution, where there was one.

    Formula: count of NaN in y + count of Inf
    """
    return {"": found.nan + found.inf, "NaN": found.nan, "Inf": found.inf}


@quantity(
    "UnderflowRate",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    batched=True,
    counts=output.out_of_range,
)
def underflow_rate(counts: OutOfRangeValue) -> Defined:
    """Share of the non-zero elements of the output that are too small for a ``format``.

    In magnitude below its smallest normal number. Of gradients it is that of the true loss, or
    with ``loss_scaled=True`` of the scaled one, as they flow. Zeros alone have none.

    Formula: (elements with 0 < |y| < smallest normal) / (elements with y != 0)
    """
    return _share(counts.below, counts)


@quantity(
    "OverflowRate",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    batched=True,
    counts=output.out_of_range,
)
def overflow_rate(counts: OutOfRangeValue) -> Defined:
    """Share of the non-zero elements of the output that are too large for a ``format``.

    In magnitude above its largest number. Of gradients it is that of the true loss, or with
    ``loss_scaled=True`` of the scaled one, as they flow. Zeros alone have none.

    Formula: (elements with |y| > largest number) / (elements with y != 0)
    """
    return _share(counts.above, counts)


def _share(part: Tensor, counts: OutOfRangeValue) -> Defined:
    """A share of the elements that are not zero; NaN where there is NaN."""
    share = torch.where(counts.nan > 0, torch.nan, ratio(part, counts.n))
    return Defined(share, (counts.n > 0) | (counts.nan > 0), "all elements are zero")


@quantity("Kurtosis", unit="ratio", accuracy="1e-5", batched=True, found=output.fourth_moment)
def kurtosis(found: KurtosisValue) -> Defined:
    """Kurtosis of all elements of the output: 3 for a normal distribution, large with outliers.

    NaN for constants.

    Formula: E[(y - mean)^4] / var^2, var biased
    """
    return Defined.of_any(found.kurtosis, found.n)


@quantity(
    "Histogram",
    unit=BY_POWER_OF_TWO,
    accuracy="exact counts",
    counts=output.histogram,
)
def histogram(counts: Tensor) -> Tensor:
    """Histogram of the output by sign and power of two, as 514 counts.

    In ascending order: -Inf, negative bins, zero, positive bins, +Inf, NaN, with the edges of
    ``taiyi_fx.reductions.histogram_edges()``. Of gradients under a loss scale that is no power of
    two, bins are moved by the nearest one: then counts are those of up to 1.4 times the values.

    Formula: count of 2^e <= |y| < 2^(e+1) for each sign and e
    """
    return counts


@quantity("Quantiles", accuracy="within a factor of two, or exact", found=output.quantiles)
def quantiles(found: QuantilesValue) -> dict[str, Defined]:
    """Quantiles of all elements of the output, as ``Quantiles.p5``, ``Quantiles.p50`` and so on.

    For the shares ``q``. From a histogram by powers of two, which a loss scale that is no power of
    two moves by the nearest one; with ``exact=True`` from all elements.

    Formula: the k-th smallest of y, k = q (n - 1), linear between two
    """
    pairs = zip(found.q, found.values, strict=True)
    return {f"p{100 * share:g}": Defined.of_any(value, found.n) for share, value in pairs}


also_at(non_finite, {"InputNonFinite": _INPUT, "OutputGradNonFinite": _OUTPUT_GRAD})
for _made in (underflow_rate, overflow_rate, histogram, quantiles, kurtosis):
    also_at(
        _made,
        {
            f"Input{_made.name}": _INPUT,
            f"OutputGrad{_made.name}": _OUTPUT_GRAD,
            f"Weight{_made.name}": _WEIGHT,
            f"WeightGrad{_made.name}": _WEIGHT_GRAD,
        },
    )
