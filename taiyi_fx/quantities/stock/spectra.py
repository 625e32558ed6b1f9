"""Conditioning and rank: spectra of layer inputs, output gradients and representations.

Conditioning of layer inputs: arXiv 2002.10801. All spectral quantities of one tensor share one
covariance and one eigenvalue decomposition, which is computed beside the training.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Defined, Elsewhere, NoValue, also_at, quantity
from taiyi_fx.quantities.options import Range
from taiyi_fx.quantities.places import input, output, output_grad
from taiyi_fx.reductions import SingularValues, SpectrumValue

_OUTPUT_GRAD = Elsewhere(output_grad, "the output's gradient", "g_y")

Share = Annotated[float, Range(0, 1)] | None


def condition(spectrum: SpectrumValue, p: float | None = None) -> Tensor:
    """lambda_1 / lambda_k, k = floor(p C) counted from 0, or the last; +inf where that is zero.

    Zero is what is at or below lambda_1 max(C, sqrt(N)) eps: a share of lambda_1, so that
    rescaling the data changes nothing.
    """
    eigenvalues = spectrum.eigenvalues
    features = eigenvalues.shape[-1]
    chosen = eigenvalues[..., -1 if p is None else min(int(p * features), features - 1)]
    ratio = eigenvalues[..., 0] / chosen
    return torch.where(chosen <= spectrum.zero, torch.inf, ratio)


@quantity(
    "InputCovMaxEig",
    accuracy="1e-4",
    health="lasting",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_max_eig(spectrum: SpectrumValue) -> Defined:
    """Largest eigenvalue of the covariance of the input; with one feature, its variance.

    A single row has none.

    Formula: lambda_1
    """
    return Defined(spectrum.largest, spectrum.divisor > 0, "it takes at least two rows")


@quantity(
    "InputCovStableRank",
    unit="directions",
    accuracy="1e-4",
    health="lasting",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_stable_rank(spectrum: SpectrumValue) -> Tensor:
    """Stable rank of the covariance of the input; NaN where its largest eigenvalue is zero.

    Formula: sum_k lambda_k / lambda_1
    """
    return spectrum.trace / spectrum.largest


@quantity(
    "InputCovCondition",
    unit="ratio",
    accuracy="1e-4 where well conditioned",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_condition(spectrum: SpectrumValue, *, p: Share = None) -> Tensor:
    """Condition number of the covariance of the input.

    With ``p``, over the eigenvalue at floor(p C), counted from 0. +inf where that is zero.

    Formula: lambda_1 / lambda_C, or lambda_1 / lambda_k, k = floor(p C)
    Source: arXiv 2002.10801
    """
    return condition(spectrum, p)


@quantity(
    "InputCovCondition20",
    unit="ratio",
    accuracy="1e-4 where well conditioned",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_condition_20(spectrum: SpectrumValue) -> Tensor:
    """Largest over the 20 % eigenvalue of the covariance of the input.

    Formula: lambda_1 / lambda_k, k = floor(0.2 C) counted from 0
    Source: arXiv 2002.10801
    """
    return condition(spectrum, 0.2)


@quantity(
    "InputCovCondition50",
    unit="ratio",
    accuracy="1e-4 where well conditioned",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_condition_50(spectrum: SpectrumValue) -> Tensor:
    """Largest over the 50 % eigenvalue of the covariance of the input.

    Formula: lambda_1 / lambda_k, k = floor(0.5 C) counted from 0
    Source: arXiv 2002.10801
    """
    return condition(spectrum, 0.5)


@quantity(
    "InputCovCondition80",
    unit="ratio",
    accuracy="1e-4 where well conditioned",
    batched=True,
    spectrum=input.spectrum,
)
def input_cov_condition_80(spectrum: SpectrumValue) -> Tensor:
    """Largest over the 80 % eigenvalue of the covariance of the input.

    Formula: lambda_1 / lambda_k, k = floor(0.8 C) counted from 0
    Source: arXiv 2002.10801
    """
    return condition(spectrum, 0.8)


for _made in (
    input_cov_max_eig,
    input_cov_stable_rank,
    input_cov_condition,
    input_cov_condition_20,
    input_cov_condition_50,
    input_cov_condition_80,
):
    _name = _made.name.replace("Input", "OutputGrad")
    also_at(_made, {_name: _OUTPUT_GRAD}, instead_of=("the input", "x"), lasts=False)


@quantity(
    "ParticipationRatio",
    unit="directions",
    accuracy="1e-4",
    health="lasting",
    batched=True,
    spectrum=output.spectrum,
)
def participation_ratio(spectrum: SpectrumValue) -> Tensor:
    """Number of directions over which the variance of the output is spread, from 1 to C.

    Needs no eigenvalues: both sums are those of the covariance matrix itself. NaN for constants.

    Formula: (sum_k lambda_k)^2 / sum_k lambda_k^2
    Source: Gao et al. 2017, bioRxiv 214262
    """
    return spectrum.trace.square() / spectrum.square_sum


also_at(participation_ratio, {"InputParticipationRatio": Elsewhere(input, "the input", "x")})
also_at(participation_ratio, {"OutputGradParticipationRatio": _OUTPUT_GRAD}, lasts=False)


@quantity(
    "OutputVariation",
    unit="ratio",
    accuracy="1e-4",
    batched=True,
    spectrum=output.spectrum,
)
def output_variation(spectrum: SpectrumValue) -> Tensor:
    """Share of the output's mean square that is variance between rows, in [0, 1].

    0 where all rows are alike, whatever their size; NaN of a single row, and of zeros.

    Formula: sum_n ||y_n - mean(y)||^2 / sum_n ||y_n||^2
    """
    within = spectrum.trace * (spectrum.n - 1)
    return within / (within + spectrum.n * spectrum.mean_square)


@quantity(
    "FisherCondition",
    unit="ratio",
    accuracy="2e-4 where well conditioned",
    batched=True,
    inputs=input.spectrum(centered=False),
    gradients=output_grad.spectrum(centered=False),
)
def fisher_condition(inputs: SpectrumValue, gradients: SpectrumValue) -> Tensor:
    """Condition number of the layer's Kronecker-factored Fisher block.

    Of input rows a and output gradient rows g; +inf where either matrix is singular.

    Formula: kappa(E[a a^T]) kappa(E[g g^T]), kappa = lambda_1 / lambda_C
    Source: arXiv 2002.10801
    """
    return condition(inputs) * condition(gradients)


@quantity(
    "RankMe",
    unit="directions",
    accuracy="1e-4",
    health="lasting",
    batched=True,
    singular=output.singular,
)
def rank_me(singular: SingularValues) -> dict[str, Tensor]:
    """Effective rank of the output as a representation: exp of its singular values' entropy.

    All zero gives NaN. Bounded by the number of rows N, recorded beside it as ``RankMe.N``.

    Formula: exp(-sum_k p_k log p_k), p_k = sigma_k / ||sigma||_1 + 1e-7
    Source: arXiv 2210.02885
    """
    values, n = singular
    if not values.shape[-1]:
        raise NoValue("the output has no rows")
    values = values.double() / values.amax(-1, keepdim=True)
    p = values / values.sum(-1, keepdim=True) + 1e-7
    counted = torch.arange(p.shape[-1], device=p.device) < n.unsqueeze(-1)
    entropy = -torch.where(counted, p * p.log(), 0).sum(-1)
    return {"": entropy.exp(), "N": n}
