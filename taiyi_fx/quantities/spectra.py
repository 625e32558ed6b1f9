"""Conditioning and rank: spectra of layer inputs, output gradients and representations.

Conditioning of layer inputs: arXiv 2002.10801. All spectral quantities of one tensor share one
covariance and one eigenvalue decomposition.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from taiyi_fx.options import Range
from taiyi_fx.places import input, output, output_grad
from taiyi_fx.quantity import quantity
from taiyi_fx.reductions import SingularValues, SpectrumValue

Share = Annotated[float, Range(0, 1)] | None


def largest(spectrum: SpectrumValue) -> Tensor:
    """lambda_1."""
    return spectrum.eigenvalues[0]


def stable_rank(spectrum: SpectrumValue) -> Tensor:
    """Sum lambda / lambda_1; NaN where lambda_1 is zero."""
    return spectrum.eigenvalues.sum() / spectrum.eigenvalues[0]


def condition(spectrum: SpectrumValue, p: float | None) -> Tensor:
    """lambda_1 / lambda_k, k = floor(p C) counted from 0, or the last; +inf where that is zero.

    Zero is what is at or below lambda_1 max(C, sqrt(N)) eps: a share of lambda_1, so that
    rescaling the data changes nothing.
    """
    eigenvalues = spectrum.eigenvalues
    chosen = eigenvalues[-1 if p is None else min(int(p * len(eigenvalues)), len(eigenvalues) - 1)]
    ratio = eigenvalues[0] / chosen
    infinite = torch.where(chosen <= spectrum.zero, torch.inf, ratio)
    return torch.where(chosen.isnan(), torch.nan, infinite)


@quantity("InputCovMaxEig", spectrum=input.spectrum)
def input_cov_max_eig(spectrum: SpectrumValue) -> Tensor:
    """Largest eigenvalue of the input's covariance."""
    return largest(spectrum)


@quantity("InputCovStableRank", spectrum=input.spectrum)
def input_cov_stable_rank(spectrum: SpectrumValue) -> Tensor:
    """Stable rank of the input's covariance, sum lambda / lambda_1; NaN where that is zero."""
    return stable_rank(spectrum)


@quantity("InputCovCondition", spectrum=input.spectrum)
def input_cov_condition(spectrum: SpectrumValue, *, p: Share = None) -> Tensor:
    """Condition number of the input's covariance: largest over smallest eigenvalue.

    With ``p``: over the one at floor(p C), counted from 0. +inf where that is zero.
    """
    return condition(spectrum, p)


@quantity("InputCovCondition20", spectrum=input.spectrum)
def input_cov_condition_20(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the input's covariance, k = floor(0.2 C) counted from 0."""
    return condition(spectrum, 0.2)


@quantity("InputCovCondition50", spectrum=input.spectrum)
def input_cov_condition_50(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the input's covariance, k = floor(0.5 C) counted from 0."""
    return condition(spectrum, 0.5)


@quantity("InputCovCondition80", spectrum=input.spectrum)
def input_cov_condition_80(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the input's covariance, k = floor(0.8 C) counted from 0."""
    return condition(spectrum, 0.8)


@quantity("OutputGradCovMaxEig", spectrum=output_grad.spectrum)
def output_grad_cov_max_eig(spectrum: SpectrumValue) -> Tensor:
    """Largest eigenvalue of the output gradient's covariance."""
    return largest(spectrum)


@quantity("OutputGradCovStableRank", spectrum=output_grad.spectrum)
def output_grad_cov_stable_rank(spectrum: SpectrumValue) -> Tensor:
    """Stable rank of the output gradient's covariance; NaN where its largest value is zero."""
    return stable_rank(spectrum)


@quantity("OutputGradCovCondition", spectrum=output_grad.spectrum)
def output_grad_cov_condition(spectrum: SpectrumValue, *, p: Share = None) -> Tensor:
    """Condition number of the output gradient's covariance; ``p`` as for the input's."""
    return condition(spectrum, p)


@quantity("OutputGradCovCondition20", spectrum=output_grad.spectrum)
def output_grad_cov_condition_20(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the output gradient's covariance, k = floor(0.2 C) counted from 0."""
    return condition(spectrum, 0.2)


@quantity("OutputGradCovCondition50", spectrum=output_grad.spectrum)
def output_grad_cov_condition_50(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the output gradient's covariance, k = floor(0.5 C) counted from 0."""
    return condition(spectrum, 0.5)


@quantity("OutputGradCovCondition80", spectrum=output_grad.spectrum)
def output_grad_cov_condition_80(spectrum: SpectrumValue) -> Tensor:
    """lambda_1 / lambda_k of the output gradient's covariance, k = floor(0.8 C) counted from 0."""
    return condition(spectrum, 0.8)


@quantity("RankMe", singular=output.singular)
def rank_me(singular: SingularValues) -> dict[str, Tensor]:
    """Effective rank of the representation, exp of the entropy of its singular values.

    p_k = sigma_k / ||sigma||_1 + 1e-7, exp(-sum p_k log p_k); all zero gives NaN. Bounded by the
    number of rows N, which is recorded beside it as ``RankMe.N``. arXiv 2210.02885.
    """
    values, n = singular
    p = values / values.sum() + 1e-7
    counted = torch.arange(len(p), device=p.device) < n
    entropy = -torch.where(counted, p * p.log(), 0).sum()
    return {"": entropy.exp(), "N": n}
