"""Size, mean and spread of what modules take in and give out."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Defined, Elsewhere, NoValue, also_at, quantity
from taiyi_fx.quantities.places import input, output
from taiyi_fx.reductions import FeatureNorms, FeatureNormsValue, MomentsValue, SampleNormsValue


@quantity("InputSndNorm", accuracy="1e-5", health="lasting", batched=True, norm=input.norm)
def input_snd_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the input over all its elements.

    Formula: ||x||_2
    """
    return norm


@quantity("InputMean", accuracy="1e-5 of the mean magnitude", batched=True, moments=input.moments)
def input_mean(moments: MomentsValue) -> Defined:
    """Mean of the input: one number, or with ``reduce="feature"`` one per feature.

    Formula: mean of X over all elements, or over its rows
    """
    return Defined.of_any(moments.mean, moments.n)


@quantity(
    "InputStd",
    accuracy="1e-5, also for a mean 1e6 times as large",
    health="lasting",
    batched=True,
    moments=input.moments,
)
def input_std(moments: MomentsValue) -> Defined:
    """Standard deviation of the input over all elements, or per feature.

    Unbiased; a single element (a single row) has none.

    Formula: sqrt(sum (x - mean)^2 / (n - 1))
    """
    return Defined(moments.std, moments.n > 1, "it takes at least two elements, or rows")


@quantity("OutputNorm", accuracy="1e-5", health="lasting", batched=True, norms=output.sample_norms)
def output_norm(norms: SampleNormsValue) -> Defined:
    """Mean over the samples (axis 0) of the output's Euclidean norm.

    With ``normalize=True`` each is divided by the root of its number of elements.

    Formula: mean_i ||y_i||_2
    """
    return Defined.of_any(norms.mean, norms.n, "samples")


@quantity(
    "OutputRMS", accuracy="1e-5", health="lasting", batched=True, norm=output.norm, n=output.count
)
def output_rms(norm: Tensor, n: Tensor) -> Defined:
    """Root mean square of the output over all its elements.

    Formula: ||y||_2 / sqrt(numel)
    """
    return Defined.of_any(norm / n.to(norm.dtype).sqrt(), n)


@quantity("OutputAbsMax", accuracy="exact", health="lasting", batched=True, largest=output.abs_max)
def output_abs_max(largest: Tensor) -> Tensor:
    """Largest absolute value of the output.

    Formula: max |y|
    """
    return largest


@quantity("OutlierFeatures", unit="features", accuracy="1e-5", found=output.reduce(FeatureNorms))
def outlier_features(found: FeatureNormsValue, *, factor: float = 6.0) -> dict[str, Defined]:
    """Number of features of the output that are far larger than the layer's usual one.

    Those whose root mean square over rows exceeds ``factor`` times the median of all features': in
    language models the same few in all layers, which formats of few bits lose first. The largest
    such ratio is ``OutlierFeatures.largest``; a thousand and more is called a massive activation.

    Formula: count of rms(y_f) > 6 median_f rms(y_f)
    Source: arXiv 2208.07339; arXiv 2402.17762
    """
    size = found.norms / found.n.to(found.norms.dtype).sqrt()
    if not size.numel():
        raise NoValue("the output has no features")
    ordered, n = size.sort().values, len(size)
    usual = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    many = (size > factor * usual).sum().to(size.dtype)
    parts = {
        "": torch.where(size.isfinite().all(), many, torch.nan),
        "largest": size.amax() / usual,
    }
    return {name: Defined.of_any(part, found.n, "rows") for name, part in parts.items()}


_INPUT = Elsewhere(input, "the input", "x")

also_at(output_rms, {"InputRMS": _INPUT})
also_at(output_abs_max, {"InputAbsMax": _INPUT})
