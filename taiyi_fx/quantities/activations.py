"""Size, mean and spread of what modules take in; neurons that stay silent."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from taiyi_fx.places import input, output
from taiyi_fx.quantity import quantity
from taiyi_fx.reductions import ActivityValue, MomentsValue, SampleNormsValue


@quantity("InputSndNorm", norm=input.norm)
def input_snd_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the input over all its elements, ||x||_2."""
    return norm


@quantity("InputMean", moments=input.moments)
def input_mean(moments: MomentsValue) -> Tensor:
    """Mean of the input: one number, or with ``reduce="feature"`` one per feature."""
    return moments.mean


@quantity("InputStd", moments=input.moments)
def input_std(moments: MomentsValue) -> Tensor:
    """Unbiased standard deviation of the input over all elements, or per feature.

    NaN for a single element (a single row).
    """
    return moments.std


@quantity("InputRMS", norm=input.norm, n=input.count)
def input_rms(norm: Tensor, n: Tensor) -> Tensor:
    """Root mean square of the input over all its elements, ||x||_2 / sqrt(numel)."""
    return norm / n.to(norm.dtype).sqrt()


@quantity("OutputRMS", norm=output.norm, n=output.count)
def output_rms(norm: Tensor, n: Tensor) -> Tensor:
    """Root mean square of the output over all its elements, ||y||_2 / sqrt(numel)."""
    return norm / n.to(norm.dtype).sqrt()


@quantity("OutputNorm", norms=output.sample_norms)
def output_norm(norms: SampleNormsValue) -> Tensor:
    """Mean over the samples (axis 0) of the output's Euclidean norm, ||y_i||_2.

    With ``normalize=True`` each is divided by the root of its number of elements.
    """
    return norms.mean


@quantity("OutputAbsMax", largest=output.abs_max)
def output_abs_max(largest: Tensor) -> Tensor:
    """Largest absolute value in the output."""
    return largest


@quantity("OutputActivationRate", activity=output.activity)
def output_activation_rate(
    activity: ActivityValue, *, reduce: Literal["all", "feature"] = "all"
) -> Tensor:
    """Share of rows in which a feature is active, |y| > ``eps`` (1e-8).

    The mean over the features, or with ``reduce="feature"`` one number for each.
    """
    return activity.rate if reduce == "feature" else activity.rate.mean()


@quantity("OutputDeathRate", activity=output.activity)
def output_death_rate(activity: ActivityValue) -> Tensor:
    """Share of features that are active, |y| > ``eps``, in no row."""
    share = (activity.rate == 0).to(activity.rate.dtype).mean()
    return torch.where(activity.rate.isnan().any(), torch.nan, share)


@quantity("LinearDeadNeuronNum", highest=output.feature_max)
def linear_dead_neuron_num(highest: Tensor, *, threshold: float = -2.0) -> Tensor:
    """Share of features whose output is at most the threshold in every row."""
    return _dead_share(highest, threshold)


@quantity("DeadNeuronRatio", highest=output.feature_max)
def dead_neuron_ratio(highest: Tensor, *, threshold: float = 0.0) -> Tensor:
    """Share of features whose output is at most zero in every row: for ReLU-like activations."""
    return _dead_share(highest, threshold)


def _dead_share(highest: Tensor, threshold: float) -> Tensor:
    share = (highest <= threshold).to(highest.dtype).mean()
    return torch.where(highest.isnan().any(), torch.nan, share)
