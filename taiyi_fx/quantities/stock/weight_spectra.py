"""Singular values of weights as matrices: the largest, how many count, and their heavy tail."""

from __future__ import annotations

from torch import Tensor

from taiyi_fx.quantities.declare import NoValue, quantity
from taiyi_fx.quantities.places import weight
from taiyi_fx.reductions import MatrixValue, WeightMatrix
from taiyi_fx.reductions.power_law import power_law

_FEWEST = 50
"""Eigenvalues below which no tail is fitted."""

_matrix = weight.reduce(WeightMatrix)


@quantity("WeightSpectralNorm", accuracy="1e-5", health="lasting", matrix=_matrix)
def weight_spectral_norm(matrix: MatrixValue) -> Tensor:
    """Largest singular value of the weight as a matrix, axis 0 by the rest.

    The factor by which a linear layer stretches an input at most.

    Formula: sigma_1
    """
    return matrix.largest.sqrt() * matrix.unit


@quantity("WeightStableRank", unit="dimensions", accuracy="1e-5", health="lasting", matrix=_matrix)
def weight_stable_rank(matrix: MatrixValue) -> Tensor:
    """Number of directions that carry the weight's size: its stable rank, as a matrix.

    Between 1 and the smaller side. NaN of zeros.

    Formula: ||W||_F^2 / sigma_1^2
    Source: Rudelson and Vershynin 2007, arXiv math/0503442
    """
    return matrix.square_norm / matrix.largest


@quantity("WeightAlpha", accuracy="1e-5 beside ties of tails", matrix=_matrix)
def weight_alpha(matrix: MatrixValue) -> dict[str, Tensor]:
    """Exponent of the power law that fits the tail of the weight's spectrum, as WeightWatcher does.

    Of well trained layers it is mostly between 2 and 6 (the source's claim, for whole layers at
    the end of training). The tail begins where the Kolmogorov-Smirnov distance from the power law
    is smallest; that is recorded too, as ``.distance``: a large one says that it is no power law.
    Convolutions are one matrix, output channels by the rest. None of fewer than 50 eigenvalues that
    are not zero, the source's rule of thumb for an exponent that can be relied on: WeightWatcher
    itself fits from 10 on (its ``min_evals``), so that small layers have a value there alone.

    Formula: 1 + n / sum log(lambda_i / lambda_min), over the n eigenvalues from lambda_min on
    Source: Clauset et al. 2009, arXiv 0706.1062; Martin et al. 2021, arXiv 2002.06716
    """
    squares = matrix.squares
    if squares.isnan().any():
        return {"": squares.sum(), "distance": squares.sum()}
    tail = squares[squares > matrix.zero]
    if len(tail) < _FEWEST:
        raise NoValue(
            f"it has {len(tail)} eigenvalues that are not zero, and a tail takes {_FEWEST}"
        )
    found = power_law(tail)
    return {"": found.alpha, "distance": found.distance}
