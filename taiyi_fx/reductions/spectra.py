"""Eigenvalues of the features' covariance and singular values of their matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.compiling import may_have_size_of
from taiyi_fx.reductions.lanczos import largest_eigenvalue
from taiyi_fx.reductions.moments import share_of
from taiyi_fx.reductions.products import product_of
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix, axis_of, copied, count
from taiyi_fx.reductions.sums import centred, in_unit, is_fast, power_of_two, wide


@dataclass(frozen=True)
class SpectrumValue:
    """Finished `Spectrum`: a covariance, whose eigenvalues are computed when first asked for.

    Those of many calls together have leading axes, written ``...`` here.

    Attributes:
        matrix: The product behind it, ... x C x C of features, or ... x N x N of rows where there
            are fewer. Both have the same non-zero eigenvalues. NaN where the data had NaN or Inf.
        unit: The factor to multiply the matrix with, ... in float64.
        n: The number of rows, ....
        features: C.
        eps: The relative rounding of the data's type.
        mean: The mean that was subtracted, ... x C; without a meaning where none was.
        divisor: The number that the product is divided by, ... in float64: n, or n - 1 if centred.
            With 0 there is no covariance.
    """

    matrix: Tensor
    unit: Tensor
    n: Tensor
    features: int
    eps: float
    mean: Tensor
    divisor: Tensor

    @functools.cached_property
    def eigenvalues(self) -> Tensor:
        """All C eigenvalues, ... x C, descending, in float64; NaN where the data was broken."""
        return of_finite(self.matrix, self._with_zeros) * self.unit.unsqueeze(-1)

    @functools.cached_property
    def largest(self) -> Tensor:
        """lambda_1, exact up to 512 features, else by Lanczos to a relative 1e-5."""
        if self.matrix.shape[-1] <= _SMALL:
            return self.eigenvalues[..., 0]
        return of_finite(self.matrix, _largest_of_each) * self.unit

    def _with_zeros(self, matrix: Tensor) -> Tensor:
        """All eigenvalues: of the rows' product these, and zeros for the other features."""
        found = eigenvalues_of(matrix)
        others = self.features - found.shape[-1]
        return functional.pad(found, (0, others)) if others else found

    @property
    def mean_square(self) -> Tensor:
        """The squared norm of the mean, ...."""
        return self.mean.square().sum(-1)

    @property
    def trace(self) -> Tensor:
        """The sum of all eigenvalues, without computing them."""
        diagonal = self.matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.sum(-1, dtype=self.unit.dtype) * self.unit

    @property
    def square_sum(self) -> Tensor:
        """The sum of the squares of all eigenvalues, without computing them."""
        return self.matrix.to(self.unit.dtype).square().sum((-2, -1)) * self.unit.square()

    @property
    def zero(self) -> Tensor:
        """The magnitude at and below which an eigenvalue is zero, lambda_1 max(C, sqrt(N)) eps.

        That is what rounding leaves: C eps from the decomposition, and from sums over N rows
        errors that grow with the root of N, not with N (Higham and Mary 2019).
        """
        size = self.n.to(self.eigenvalues.dtype).sqrt().clamp(min=self.features)
        return self.eigenvalues[..., 0] * size * self.eps


_SMALL = 512
_FEW = 8192
"""So many numbers are kept as they are: a copy is ten times cheaper than their covariance, and
many calls' covariances are computed together."""


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the covariance of the features (N - 1), or of X^T X / N when not centred.

    The state is count, mean, unit, the deviations' C x C product, and rows. Few numbers, and fewer
    rows than features, are kept as the rows that they are (the N x N Gram matrix then has the same
    non-zero eigenvalues for less work), with mean and product empty; else the rows are. The
    product is kept in a unit, a power of two, in which it neither overflows nor underflows.

    Cost: one C x C product; eigenvalues are computed aside

    Attributes:
        centered: True to subtract the mean.
        feature_axis: The axis of the features.
    """

    centered: bool = True
    feature_axis: FeatureAxis = "auto"
    is_costly: ClassVar[bool] = True
    has_fixed_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise TypeError(f"centered must be True or False, not {self.centered!r}")

    def measure(self, x: Tensor) -> State:
        rows = as_matrix(accumulated(x), self.feature_axis)
        n, c = rows.shape
        if may_have_size_of(n) and _stays_rows(n, c):
            nothing, one = rows.new_empty(0), rows.new_ones((), dtype=wide(x.device))
            return count(n, x), nothing, one, nothing, copied(rows)  # no view of the tensor itself
        return count(n, x), *self._product(rows), rows.new_empty(0, c)

    def measure_many(self, tensors: Sequence[Tensor]) -> State:
        """The same of each of several tensors of one shape."""
        x, k = tensors[0], len(tensors)
        axis = axis_of(x, self.feature_axis) if x.ndim else -1
        c = x.shape[axis] if x.ndim else 1
        if not x.numel() or not _stays_rows(x.numel() // c, c):
            states = zip(*map(self.measure, tensors), strict=True)
            return tuple(map(torch.stack, states))
        together = accumulated(torch.stack(list(tensors)))
        if x.ndim:
            together = together.movedim(axis if axis < 0 else axis - x.ndim, -1)
        rows = together.reshape(k, -1, c)
        one = rows.new_ones(k, dtype=wide(x.device))
        n = torch.full((k,), rows.shape[1], device=x.device)
        nothing = rows.new_empty(k, 0)
        return n, nothing, one, nothing, rows

    def _product(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of some rows, a unit, and the product of their deviations in it."""
        with torch.autocast(rows.device.type, enabled=False):
            mean = torch.zeros(rows.shape[1], dtype=wide(rows.device), device=rows.device)
            if self.centered and rows.shape[0]:
                mean, rows = centred(rows, (0,))
            rows, unit = in_unit(rows)
            return mean, unit.to(mean.dtype), product_of(rows.T, rows)

    def merge(self, a: State, b: State) -> State:
        (n_a, _, unit_a, _, rows_a), (n_b, _, unit_b, _, rows_b) = a, b
        for one, other in ((a, b), (b, a)):
            if _is_rows(one) and not len(one[4]):  # no row: nothing to add but its count
                return n_a + n_b, *other[1:]
        if _is_rows(a) and _is_rows(b):
            unit = torch.maximum(unit_a, unit_b)
            rows = torch.cat([_in(unit, rows_a, unit_a), _in(unit, rows_b, unit_b)])
            joined = n_a + n_b, a[1], unit, a[3], rows
            return joined if _stays_rows(*rows.shape) else self._with_product(joined)
        return _merged(self._with_product(a), self._with_product(b))

    def _with_product(self, state: State) -> State:
        """The same rows, as their product."""
        if not _is_rows(state):
            return state
        n, _, scale, _, rows = state
        mean, unit, product = self._product(rows)
        return n, mean * scale, unit * scale, product, rows.new_empty(0, rows.shape[1])

    def scale(self, state: State, factor: float) -> State:
        n, mean, unit, product, rows = state
        return n, mean * factor, unit * abs(factor), product, rows

    def finish(self, state: State) -> SpectrumValue:
        n, mean, unit, product, rows = state
        if _is_rows(state):
            mean, of_rows, product = self._product_of_few(rows)
            mean, unit = mean * unit.unsqueeze(-1), unit * of_rows
        per_row = (n - 1 if self.centered else n).clamp(min=0).to(unit.dtype)
        eps = torch.finfo(rows.dtype).eps
        unit = unit.square() / per_row
        return SpectrumValue(product, unit, n, rows.shape[-1], eps, mean, per_row)

    def _product_of_few(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of rows, ... x N x C, a unit, ..., and in it the smaller product of them."""
        n, c = rows.shape[-2:]
        with torch.autocast(rows.device.type, enabled=False):
            if is_fast(rows) and n * c <= _FEW:
                # In float64 nothing leaves its range, and constants have themselves as their mean.
                rows = rows.double()
                mean, unit = rows.mean(-2), rows.new_ones(rows.shape[:-2])
                rows = rows - mean.unsqueeze(-2) if self.centered else rows
            else:
                if self.centered and n:
                    mean, rows = centred(rows, (-2,))
                else:
                    mean = rows.mean(-2, dtype=wide(rows.device))
                rows, of_rows = in_unit(rows, (-2, -1))
                unit = of_rows[..., 0, 0].to(mean.dtype)
            of_both = (rows.mT, rows) if n >= c else (rows, rows.mT)
            return mean, unit, product_of(*of_both)


def _stays_rows(n: int, c: int) -> bool:
    return n < c or n * c <= _FEW


def _is_rows(state: State) -> bool:
    _, mean, _, _, rows = state
    return mean.shape[-1] < rows.shape[-1]


def _in(unit: Tensor, rows: Tensor, of_rows: Tensor) -> Tensor:
    return rows if of_rows is unit else rows * (of_rows / unit).to(rows.dtype)


def _merged(a: State, b: State) -> State:
    (n_a, mean_a, unit_a, product_a, rows), (n_b, mean_b, unit_b, product_b, _) = a, b
    with torch.autocast(mean_a.device.type, enabled=False):
        n = n_a + n_b
        delta, share = mean_b - mean_a, share_of(n_b, n, mean_b)
        bridge = (delta * (n_a * share).sqrt()).unsqueeze(0)
        # In one unit, in which all three are in range.
        of_bridge = power_of_two(bridge) * (bridge.abs().amax() > 0)
        unit = torch.maximum(torch.maximum(unit_a, unit_b), of_bridge)
        kind = product_a.dtype
        product = (bridge / unit).to(kind)
        product = product_of(product.T, product)
        for part, of_part in ((product_a, unit_a), (product_b, unit_b)):
            product = product + part * (of_part / unit).to(kind).square()
        return n, mean_a + delta * share, unit, product, rows


class SingularValues(NamedTuple):
    """Finished `Singular`: singular values, ... x min(N, C), descending, and the number of rows.

    Where compiled code kept C of them, those past N are zero. Those of many calls together have
    leading axes, written ``...``.
    """

    values: Tensor
    n: Tensor


@dataclass(frozen=True)
class Singular:
    """Singular values of the N x C matrix, through a triangular factor that merges exactly.

    Squaring the matrix first would lose every singular value below sqrt(eps) of the largest.
    Up to four rows a feature, the rows are the state and the factor is computed aside. A factor is
    larger than its rows, and so in a unit, a power of two, in which it does not overflow.

    Cost: one C x C product; singular values are computed aside

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"
    is_costly: ClassVar[bool] = True
    has_fixed_shape: ClassVar[bool] = False

    def measure(self, x: Tensor) -> State:
        rows = as_matrix(accumulated(x), self.feature_axis)
        return count(rows.shape[0], x), *self._kept(rows)

    def merge(self, a: State, b: State) -> State:
        (n_a, unit_a, rows_a), (n_b, unit_b, rows_b) = a, b
        unit = torch.maximum(unit_a, unit_b)
        rows = torch.cat([_in(unit, rows_a, unit_a), _in(unit, rows_b, unit_b)])
        of_rows, rows = self._kept(rows)
        return n_a + n_b, unit * of_rows, rows

    def scale(self, state: State, factor: float) -> State:
        n, unit, rows = state
        return n, unit * abs(factor), rows

    def finish(self, state: State) -> SingularValues:
        n, unit, rows = state
        return SingularValues(of_finite(rows, _singular_values) * unit.unsqueeze(-1), n)

    def _kept(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A unit, and in it the rows or their factor."""
        n, c = rows.shape
        unit = rows.new_ones((), dtype=wide(rows.device))
        if may_have_size_of(n) and n <= 4 * c:
            return unit, copied(rows)
        if may_have_size_of(n) or n > c:
            rows, of_rows = in_unit(rows)
            unit, rows = of_rows.to(unit.dtype), _factor_of(rows)
        if may_have_size_of(n):
            return unit, rows
        # A state of one shape: rows of zeros change no singular value but 0.
        padded = rows.new_zeros(c, c)
        padded[: rows.shape[0]] = rows
        return unit, padded


class MatrixSingularValues(NamedTuple):
    """Finished `MatrixSingular`: all singular values, ... x K, descending, and what counts as zero.

    Zero is what is at or below sigma_1 max(K, sqrt(N)) eps, N being the longer side. Those of many
    parameters together have leading axes, written ``...``.
    """

    values: Tensor
    zero: Tensor


def parameter_matrix(x: Tensor) -> Tensor:
    """A parameter as a matrix, axis 0 by the rest.

    Raises:
        ValueError: It has no elements.
    """
    if not x.numel():
        raise ValueError(
            f"a parameter of shape {list(x.shape)} has no singular values: it is empty"
        )
    return x.reshape(x.shape[0] if x.ndim else 1, -1)


@dataclass(frozen=True)
class MatrixSingular:
    """Singular values of a parameter as a matrix: axis 0 by the rest.

    Cost: a copy; singular values are computed aside
    """

    is_costly: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        return (parameter_matrix(accumulated(x)).clone(),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0], b[0]]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> MatrixSingularValues:
        (matrix,) = state
        values = of_finite(matrix, _singular_values)
        shorter, longer = sorted(matrix.shape[-2:])
        zero = values[..., 0] * max(shorter, longer**0.5) * torch.finfo(matrix.dtype).eps
        return MatrixSingularValues(values, zero)


def eigenvalues_of(matrix: Tensor) -> Tensor:
    """Those of symmetric positive semidefinite matrices, descending, in float64."""
    matrix = matrix.to(wide(matrix.device))
    try:
        return torch.linalg.eigvalsh(matrix).flip(-1).clamp(min=0)
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
        # LAPACK's iteration may not converge, with rows of zeros for one.
        return torch.linalg.svdvals(matrix)


def _singular_values(matrix: Tensor) -> Tensor:
    """Those of finite matrices, descending, in float64."""
    matrix, unit = in_unit(matrix, (-2, -1))
    if matrix.shape[-2] > matrix.shape[-1]:
        matrix = _factor(matrix)
    return torch.linalg.svdvals(matrix) * unit.squeeze(-1).to(wide(matrix.device))


def _largest_of_each(matrices: Tensor) -> Tensor:
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    return torch.stack(list(map(largest_eigenvalue, flat))).reshape(matrices.shape[:-2])


def of_finite(matrix: Tensor, decompose: Callable[[Tensor], Tensor]) -> Tensor:
    """The numbers that a decomposition tells of matrices, one or a vector of each.

    NaN of those that hold NaN or Inf, which LAPACK does not take.
    """
    # Finite ones have a finite sum; where a look does not wait, one shows that nothing is to do.
    if matrix.is_cpu and math.isfinite(matrix.sum(dtype=torch.float64).item()):
        return decompose(matrix)
    safe, broken = guarded(matrix)
    found = decompose(safe)
    return torch.where(broken if found.ndim == broken.ndim else broken[..., 0], torch.nan, found)


def _factor_of(rows: Tensor) -> Tensor:
    """The triangular factor; NaN where there is any, of which LAPACK may make anything."""
    safe, broken = guarded(rows)
    return _factor(safe).masked_fill(broken, torch.nan)


def _factor(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows, mode="r").R


def guarded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices with NaN and Inf taken out, so that LAPACK takes them, and whether each had any.

    The answer has an axis of one for their rows.
    """
    # Finite ones have a finite sum: products in a unit, and float32 in float64, are far from Inf.
    total = matrix.sum((-2, -1), dtype=wide(matrix.device)).unsqueeze(-1)
    broken = ~torch.isfinite(total)
    return matrix.masked_fill(broken.unsqueeze(-1), 0), broken
