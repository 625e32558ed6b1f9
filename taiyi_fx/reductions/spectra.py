"""Eigenvalues of the features' covariance and singular values of their matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix, count


def _mean(rows: Tensor) -> Tensor:
    # Taken around the first row: exact for constant features, whose deviations must be zero and
    # not the rounding of a sum, and precise where the mean is large beside the spread.
    first = rows[:1].sum(dim=0)
    return first + (rows - first).mean(dim=0)


def _guarded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix with NaN and Inf taken out, so that LAPACK takes it, and whether it had any."""
    broken = ~torch.isfinite(matrix).all()
    return torch.where(broken, torch.zeros_like(matrix), matrix), broken


class SpectrumValue(NamedTuple):
    """Finished `Spectrum`: all C eigenvalues in descending order, and the number of rows."""

    eigenvalues: Tensor
    n: Tensor

    @property
    def zero(self) -> Tensor:
        """The magnitude at and below which an eigenvalue is zero: lambda_1 max(C, sqrt(N)) eps.

        That is what rounding leaves: C eps from the decomposition, and from sums over N rows
        errors that grow with the root of N, not with N (Higham and Mary 2019).
        """
        size = self.n.to(self.eigenvalues.dtype).sqrt().clamp(min=len(self.eigenvalues))
        return self.eigenvalues[0] * size * torch.finfo(self.eigenvalues.dtype).eps


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the covariance of the features (N - 1), or of X^T X / N when not centred.

    The state is count, mean, and either the deviations' C x C product or, while there are fewer
    rows than features, the rows themselves: then the N x N Gram matrix has the same non-zero
    eigenvalues for less work.

    Attributes:
        centered: Whether the mean is taken off.
        feature_axis: The axis of the features.
    """

    centered: bool = True
    feature_axis: FeatureAxis = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise TypeError(f"centered must be True or False, not {self.centered!r}")

    def measure(self, x: Tensor) -> State:
        with torch.autocast(x.device.type, enabled=False):
            rows = as_matrix(accumulated(x), self.feature_axis)
            n, c = rows.shape
            mean = _mean(rows) if self.centered else rows.new_zeros(c)
            rows = rows - mean
            # Compiled code needs a state of one shape, whatever the size of the batch.
            if not torch.compiler.is_compiling() and n < c:
                return count(n, x), mean, rows.new_empty(0, 0), rows
            return count(n, x), mean, rows.T @ rows, rows.new_empty(0, c)

    def merge(self, a: State, b: State) -> State:
        with torch.autocast(a[1].device.type, enabled=False):
            return self._merged(a, b)

    def _merged(self, a: State, b: State) -> State:
        (n_a, mean_a, product_a, rows_a), (n_b, mean_b, product_b, rows_b) = a, b
        n = n_a + n_b
        # Counts are integers: divided as they are, they would give the default float type.
        delta, share = mean_b - mean_a, n_b.to(mean_b.dtype) / n
        bridge = (delta * (n_a * share).sqrt()).unsqueeze(0)
        mean = mean_a + delta * share
        rows = torch.cat([rows_a, rows_b, bridge])
        if product_a.numel() == 0 and product_b.numel() == 0 and len(rows) < len(mean):
            return n, mean, product_a, rows
        product = rows.T @ rows
        for part in (product_a, product_b):
            if part.numel():
                product = product + part
        return n, mean, product, rows.new_empty(0, len(mean))

    def scale(self, state: State, factor: float) -> State:
        n, mean, product, rows = state
        return n, mean * factor, product * factor**2, rows * factor

    def finish(self, state: State) -> SpectrumValue:
        n, mean, product, rows = state
        matrix, broken = _guarded(product if product.numel() else rows @ rows.T)
        found = torch.linalg.eigvalsh(matrix).flip(0).clamp(min=0)
        eigenvalues = found.new_zeros(len(mean))
        eigenvalues[: len(found)] = found
        eigenvalues = eigenvalues / (n - 1 if self.centered else n)
        return SpectrumValue(torch.where(broken, torch.nan, eigenvalues), n)


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

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"

    def measure(self, x: Tensor) -> State:
        rows = as_matrix(accumulated(x), self.feature_axis)
        return count(rows.shape[0], x), self._factor(rows)

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], self._factor(torch.cat([a[1], b[1]]))

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor

    def finish(self, state: State) -> SingularValues:
        factor, broken = _guarded(state[1])
        values = torch.linalg.svdvals(factor)
        return SingularValues(torch.where(broken, torch.nan, values), state[0])

    def _factor(self, rows: Tensor) -> Tensor:
        n, c = rows.shape
        if n > c:
            # LAPACK may return garbage, or nothing, for NaN: it goes through as NaN everywhere.
            safe, broken = _guarded(rows)
            rows = torch.where(broken, torch.nan, torch.linalg.qr(safe, mode="r").R)
        if not torch.compiler.is_compiling():
            return rows.clone()
        # Compiled code needs a state of one shape: rows of zeros change no singular value but 0.
        padded = rows.new_zeros(c, c)
        padded[: rows.shape[0]] = rows
        return padded
