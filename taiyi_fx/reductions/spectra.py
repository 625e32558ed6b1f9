"""Eigenvalues of the features' covariance and singular values of their matrix."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.lanczos import largest_eigenvalue
from taiyi_fx.reductions.moments import share_of
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix, count
from taiyi_fx.reductions.sums import centred, in_unit, power_of_two, wide


@dataclass(frozen=True)
class SpectrumValue:
    """Finished `Spectrum`: a covariance, whose eigenvalues are computed when first asked for.

    Attributes:
        matrix: The product behind it: of features, C x C, or of rows, N x N, where there are
            fewer. Both have the same non-zero eigenvalues. NaN where the data had NaN or Inf.
        unit: What the matrix has to be multiplied with, a scalar in float64.
        n: The number of rows.
        features: C.
    """

    matrix: Tensor
    unit: Tensor
    n: Tensor
    features: int

    @functools.cached_property
    def eigenvalues(self) -> Tensor:
        """All C eigenvalues in descending order, in float64; NaN where the data was broken."""
        safe, broken = _guarded(self.matrix)
        found = _eigenvalues(safe)
        values = self.unit.new_zeros(self.features)
        values[: len(found)] = found
        return torch.where(broken, torch.nan, values * self.unit)

    @functools.cached_property
    def largest(self) -> Tensor:
        """lambda_1: exact up to 512 features, else by Lanczos to a relative 1e-5."""
        if len(self.matrix) <= _SMALL:
            return self.eigenvalues[0]
        safe, broken = _guarded(self.matrix)
        return torch.where(broken, torch.nan, largest_eigenvalue(safe) * self.unit)

    @property
    def trace(self) -> Tensor:
        """The sum of all eigenvalues, without computing them."""
        return self.matrix.diagonal().sum(dtype=self.unit.dtype) * self.unit

    @property
    def square_sum(self) -> Tensor:
        """The sum of the squares of all eigenvalues, without computing them."""
        return self.matrix.to(self.unit.dtype).square().sum() * self.unit.square()

    @property
    def zero(self) -> Tensor:
        """The magnitude at and below which an eigenvalue is zero: lambda_1 max(C, sqrt(N)) eps.

        That is what rounding leaves: C eps from the decomposition, and from sums over N rows
        errors that grow with the root of N, not with N (Higham and Mary 2019).
        """
        size = self.n.to(self.eigenvalues.dtype).sqrt().clamp(min=self.features)
        return self.eigenvalues[0] * size * torch.finfo(self.matrix.dtype).eps


_SMALL = 512


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the covariance of the features (N - 1), or of X^T X / N when not centred.

    The state is count, mean, and either the deviations' C x C product or, while there are fewer
    rows than features, the rows themselves: then the N x N Gram matrix has the same non-zero
    eigenvalues for less work. Both are kept in a unit, a power of two, in which products neither
    overflow nor underflow.

    Cost: one C x C product; eigenvalues are computed aside

    Attributes:
        centered: Whether the mean is taken off.
        feature_axis: The axis of the features.
    """

    centered: bool = True
    feature_axis: FeatureAxis = "auto"
    is_costly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise TypeError(f"centered must be True or False, not {self.centered!r}")

    def measure(self, x: Tensor) -> State:
        with torch.autocast(x.device.type, enabled=False):
            rows = as_matrix(accumulated(x), self.feature_axis)
            n, c = rows.shape
            mean = torch.zeros(c, dtype=wide(x.device), device=x.device)
            if self.centered and n:
                mean, rows = centred(rows, (0,))
            rows, unit = in_unit(rows)
            unit = unit.to(mean.dtype)
            # Compiled code needs a state of one shape, whatever the size of the batch.
            if not torch.compiler.is_compiling() and n < c:
                kept = rows if self.centered else rows.clone()  # no view of the tensor itself
                return count(n, x), mean, unit, rows.new_empty(0, 0), kept
            return count(n, x), mean, unit, rows.T @ rows, rows.new_empty(0, c)

    def merge(self, a: State, b: State) -> State:
        with torch.autocast(a[1].device.type, enabled=False):
            return self._merged(a, b)

    def _merged(self, a: State, b: State) -> State:
        (n_a, mean_a, unit_a, product_a, rows_a), (n_b, mean_b, unit_b, product_b, rows_b) = a, b
        n = n_a + n_b
        delta, share = mean_b - mean_a, share_of(n_b, n, mean_b)
        bridge = (delta * (n_a * share).sqrt()).unsqueeze(0)
        mean = mean_a + delta * share
        # In one unit, in which all three are in range.
        of_bridge = power_of_two(bridge) * (bridge.abs().amax() > 0)
        unit = torch.maximum(torch.maximum(unit_a, unit_b), of_bridge)
        kind = rows_a.dtype
        down_a, down_b = (unit_a / unit).to(kind), (unit_b / unit).to(kind)
        rows = torch.cat([rows_a * down_a, rows_b * down_b, (bridge / unit).to(kind)])
        if product_a.numel() == 0 and product_b.numel() == 0 and len(rows) < len(mean):
            return n, mean, unit, product_a, rows
        product = rows.T @ rows
        for part, down in ((product_a, down_a), (product_b, down_b)):
            if part.numel():
                product = product + part * down.square()
        return n, mean, unit, product, rows.new_empty(0, len(mean))

    def scale(self, state: State, factor: float) -> State:
        n, mean, unit, product, rows = state
        return n, mean * factor, unit * abs(factor), product, rows

    def finish(self, state: State) -> SpectrumValue:
        n, mean, unit, product, rows = state
        matrix = product if product.numel() else rows @ rows.T
        per_row = (n - 1 if self.centered else n).clamp(min=0).to(unit.dtype)
        return SpectrumValue(matrix, unit.square() / per_row, n, len(mean))


class SingularValues(NamedTuple):
    """Finished `Singular`: singular values in descending order, and the number of rows.

    There are min(N, C) of them; where compiled code kept C, those past N are zero.
    """

    values: Tensor
    n: Tensor


@dataclass(frozen=True)
class Singular:
    """Singular values of the N x C matrix, through a triangular factor that merges exactly.

    Squaring the matrix first would lose every singular value below sqrt(eps) of the largest.
    Up to four rows a feature, the rows are the state and the factor is computed aside.

    Cost: one C x C product; singular values are computed aside

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"
    is_costly: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        rows = as_matrix(accumulated(x), self.feature_axis)
        return count(rows.shape[0], x), self._kept(rows)

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], self._kept(torch.cat([a[1], b[1]]))

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor

    def finish(self, state: State) -> SingularValues:
        rows, broken = _guarded(state[1])
        if rows.shape[0] > rows.shape[1]:
            rows = _factor(rows)
        values = torch.linalg.svdvals(rows)
        return SingularValues(torch.where(broken, torch.nan, values), state[0])

    def _kept(self, rows: Tensor) -> Tensor:
        n, c = rows.shape
        is_compiling = torch.compiler.is_compiling()
        if n > (c if is_compiling else 4 * c):
            # LAPACK may return garbage, or nothing, for NaN: it goes through as NaN everywhere.
            safe, broken = _guarded(rows)
            rows = torch.where(broken, torch.nan, _factor(safe))
        if not is_compiling:
            return rows.clone()
        # Compiled code needs a state of one shape: rows of zeros change no singular value but 0.
        padded = rows.new_zeros(c, c)
        padded[: rows.shape[0]] = rows
        return padded


class MatrixSingularValues(NamedTuple):
    """Finished `MatrixSingular`: all singular values, descending, and what counts as zero."""

    values: Tensor
    zero: Tensor


@dataclass(frozen=True)
class MatrixSingular:
    """Singular values of a parameter as a matrix: axis 0 by the rest.

    Cost: a copy; singular values are computed aside
    """

    is_costly: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        return (x.reshape(len(x) if x.ndim else 1, -1).clone(),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0], b[0]]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> MatrixSingularValues:
        safe, broken = _guarded(state[0])
        values = torch.where(broken, torch.nan, torch.linalg.svdvals(safe))
        zero = values[0] * max(safe.shape) * torch.finfo(safe.dtype).eps
        return MatrixSingularValues(values, zero)


def _eigenvalues(matrix: Tensor) -> Tensor:
    """Those of a symmetric positive semidefinite matrix, descending, in float64."""
    matrix = matrix.to(wide(matrix.device))
    try:
        return torch.linalg.eigvalsh(matrix).flip(0).clamp(min=0)
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
        # LAPACK's iteration may not converge, with rows of zeros for one.
        return torch.linalg.svdvals(matrix)


def _factor(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows, mode="r").R


def _guarded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix with NaN and Inf taken out, so that LAPACK takes it, and whether it had any."""
    broken = ~torch.isfinite(matrix).all()
    return torch.where(broken, torch.zeros_like(matrix), matrix), broken
