"""Size, mean and spread of what modules take in; neurons that stay silent."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.places import input, output
from taiyi_fx.quantity import quantity
from taiyi_fx.reductions import MomentsValue


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
