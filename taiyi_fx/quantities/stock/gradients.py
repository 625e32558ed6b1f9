"""Size and direction of the gradients that reach a module's output."""

from __future__ import annotations

from torch import Tensor

from taiyi_fx.quantities.declare import Defined, NoValue, quantity
from taiyi_fx.quantities.places import output_grad, previous
from taiyi_fx.quantities.stock.similarity import cosine
from taiyi_fx.reductions import (
    SamplesReached,
    SamplesReachedValue,
    SampleVariance,
    SampleVarianceValue,
    ratio,
)


@quantity("OutputGradSndNorm", accuracy="1e-5", batched=True, norm=output_grad.norm)
def output_grad_snd_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the loss's gradient with respect to the output.

    Formula: ||g_y||_2
    """
    return norm


@quantity("OutputGradNorm", accuracy="1e-5", batched=True, norm=output_grad.norm)
def output_grad_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the output's gradient: another name of OutputGradSndNorm.

    Formula: ||g_y||_2
    """
    return norm


@quantity(
    "OutputGradRMS", accuracy="1e-5", batched=True, norm=output_grad.norm, n=output_grad.count
)
def output_grad_rms(norm: Tensor, n: Tensor) -> Defined:
    """Root mean square of the output's gradient over its elements.

    Formula: ||g_y||_2 / sqrt(numel)
    """
    return Defined.of_any(norm / n.to(norm.dtype).sqrt(), n)


@quantity("OutputGradAbsMax", accuracy="exact", batched=True, largest=output_grad.abs_max)
def output_grad_abs_max(largest: Tensor) -> Tensor:
    """Largest absolute value in the output's gradient.

    Formula: max |g_y|
    """
    return largest


@quantity(
    "OutputGradCorrelation",
    unit="cosine",
    accuracy="1e-5 absolute",
    g=output_grad.raw,
    before=previous(output_grad.raw),
)
def output_grad_correlation(g: Tensor, before: Tensor | None) -> Tensor:
    """Cosine of the output's gradient with that of the previous due step, in [-1, 1].

    No record at the first due step and where the shapes differ, as in a smaller last batch. Zero
    gradients have none: NaN. Keeps a whole gradient from one due step to the next.

    Formula: <g_t, g_(t-1)> / (||g_t||_2 ||g_(t-1)||_2)
    """
    if before is None:
        raise NoValue("this is the first due step, so there is no gradient before it")
    if before.shape != g.shape:
        shapes = f"{tuple(before.shape)} and {tuple(g.shape)}"
        raise NoValue(f"the gradients of this due step and the one before have shapes {shapes}")
    return cosine(g, before)


@quantity(
    "OutputGradSampleRate",
    unit="share",
    accuracy="exact counts",
    samples=output_grad.reduce(SamplesReached),
)
def output_grad_sample_rate(samples: SamplesReachedValue) -> Defined:
    """Share of the samples of a batch that the loss's gradient reaches.

    Samples are the entries of ``axis``, as the layer takes them: 1 for a recurrent layer, or an
    attention, without ``batch_first=True``. It is below 1 where the loss leaves samples out. Where
    one sample alone is reached at each step, the layer takes another axis for that of the batch:
    the loss is of the last place in time of each sample.

    Formula: (samples with any g_y != 0) / n
    """
    return Defined.of_any(ratio(samples.reached, samples.n), samples.n, "samples")


@quantity(
    "OutputGradSampleSpread",
    unit="share",
    accuracy="1e-6",
    variance=output_grad.reduce(SampleVariance),
)
def output_grad_sample_spread(variance: SampleVarianceValue) -> Tensor:
    """Share of the deviation of the output's gradient that is between samples at the same place.

    Samples are the entries of ``axis``, 0 or 1, and places those of the other of these two axes.
    0 where all samples are given the same gradient, though one place is given another than the
    next: as where the loss is of a mean over what the layer takes for the batch. No record where a
    place has no gradient, or all elements have the same. Means are those of each call, on each
    rank.

    Formula: sum (g_y - mean over samples)^2 / sum (g_y - mean over samples and places)^2
    """
    if variance.empty > 0:
        raise NoValue("no gradient reaches some of the places")
    if not variance.total > 0:
        raise NoValue("the gradient is the same everywhere")
    return variance.within / variance.total
