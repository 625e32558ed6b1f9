"""The stock of mergeable reductions: what probes keep of a tensor instead of the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State

FeatureAxis = int | Literal["auto"]
"""The axis that holds the features; ``"auto"`` is resolved by the module's class."""


def accumulated(x: Tensor) -> Tensor:
    """``x`` in the type that it is reduced in.

    Half precision becomes float32, float64 stays, integers and booleans become float32,
    complex numbers are replaced by their absolute value.
    """
    if x.is_complex():
        x = x.abs()
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.float32)


def as_matrix(x: Tensor, feature_axis: FeatureAxis) -> Tensor:
    """``x`` as rows by features, N x C: the feature axis moved last, all others flattened.

    ``"auto"`` that no module resolved is axis 1 for four axes or more, else the last.

    Raises:
        IndexError: The tensor has no such axis.
    """
    if x.ndim == 0:
        return x.reshape(1, 1)
    axis = (1 if x.ndim >= 4 else -1) if feature_axis == "auto" else feature_axis
    return x.movedim(axis, -1).reshape(-1, x.shape[axis])


def _count(n: int, like: Tensor) -> Tensor:
    return torch.full((), n, dtype=torch.int64, device=like.device)


def _mean(rows: Tensor) -> Tensor:
    # Taken around the first row: exact for constant features, whose deviations must be zero and
    # not the rounding of a sum, and precise where the mean is large beside the spread.
    first = rows[:1].sum(dim=0)
    return first + (rows - first).mean(dim=0)


def _guarded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix with NaN and Inf taken out, so that LAPACK takes it, and whether it had any."""
    broken = ~torch.isfinite(matrix).all()
    return torch.where(broken, torch.zeros_like(matrix), matrix), broken


@dataclass(frozen=True)
class Norm:
    """The Euclidean norm of all elements. Finishes as a scalar."""

    def measure(self, x: Tensor) -> State:
        return (torch.linalg.vector_norm(accumulated(x)),)

    def merge(self, a: State, b: State) -> State:
        return (torch.hypot(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * abs(factor),)

    def finish(self, state: State) -> Tensor:
        return state[0]


class MomentsValue(NamedTuple):
    """Finished `Moments`: number of rows, mean and sum of squared deviations."""

    n: Tensor
    mean: Tensor
    square_deviations: Tensor

    @property
    def std(self) -> Tensor:
        """The unbiased standard deviation; NaN for a single row."""
        missing_axes = self.square_deviations.ndim - self.n.ndim
        n = self.n.reshape((*self.n.shape, *[1] * missing_axes))
        return (self.square_deviations / (n - 1)).sqrt()


@dataclass(frozen=True)
class Moments:
    """Count, mean and squared deviations, over all elements or for each feature.

    Merged pairwise (Chan, Golub, LeVeque 1983), never by subtracting large sums.

    Attributes:
        reduce: ``"all"`` for one mean over all elements, ``"feature"`` for one per feature.
        feature_axis: The axis of the features.
    """

    reduce: Literal["all", "feature"] = "all"
    feature_axis: FeatureAxis = "auto"

    def __post_init__(self) -> None:
        if self.reduce not in ("all", "feature"):
            raise ValueError(f"reduce must be 'all' or 'feature', not {self.reduce!r}")

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        rows = as_matrix(x, self.feature_axis) if self.reduce == "feature" else x.reshape(-1)
        var, mean = torch.var_mean(rows, dim=0, correction=0)
        return _count(rows.shape[0], x), mean, var * rows.shape[0]

    def merge(self, a: State, b: State) -> State:
        (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
        n = n_a + n_b
        # Counts are integers: divided as they are, they would give the default float type.
        delta, share = mean_b - mean_a, n_b.to(mean_b.dtype) / n
        return n, mean_a + delta * share, m2_a + m2_b + delta.square() * (n_a * share)

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor, state[2] * factor**2

    def finish(self, state: State) -> MomentsValue:
        return MomentsValue(*state)


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
                return _count(n, x), mean, rows.new_empty(0, 0), rows
            return _count(n, x), mean, rows.T @ rows, rows.new_empty(0, c)

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
        return _count(rows.shape[0], x), self._factor(rows)

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


@dataclass(frozen=True)
class FeatureMax:
    """The largest value of each feature over all rows. Finishes as a vector of C values.

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"

    def measure(self, x: Tensor) -> State:
        return (as_matrix(accumulated(x), self.feature_axis).amax(dim=0),)

    def merge(self, a: State, b: State) -> State:
        return (torch.maximum(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class Sign:
    """The sign of each element, -1, 0 or 1 (0 for NaN), as int8 in the tensor's own shape."""

    def measure(self, x: Tensor) -> State:
        return (accumulated(x).sign().nan_to_num().to(torch.int8),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0].reshape(-1), b[0].reshape(-1)]),)

    def scale(self, state: State, factor: float) -> State:
        return state if factor > 0 else (-state[0],)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class SquareSum:
    """The sum of the squares of all elements. Finishes as a scalar."""

    def measure(self, x: Tensor) -> State:
        return (accumulated(x).square().sum(),)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor**2,)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class Count:
    """The number of elements. Finishes as an integer scalar."""

    def measure(self, x: Tensor) -> State:
        return (_count(x.numel(), x),)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class Raw:
    """A copy of the tensor itself, several micro-batches joined along their first axis.

    The state has no fixed shape, so in compiled code only values are kept, not gradients.

    Attributes:
        max_elements: Keep only as many leading rows as hold at most this many elements
            (leading elements, flattened, where a single row holds more). ``None``: everything.
    """

    max_elements: int | None = None
    has_fixed_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        bound = self.max_elements
        if bound is not None and (not isinstance(bound, int) or bound < 1):
            raise ValueError(f"max_elements must be a positive whole number, not {bound!r}")

    def measure(self, x: Tensor) -> State:
        return (self._bounded(x).clone(),)

    def merge(self, a: State, b: State) -> State:
        """Joins along the first axis; tensors whose rows differ in shape are joined flattened."""
        x, y = a[0], b[0]
        if x.ndim == 0 or x.shape[1:] != y.shape[1:]:
            x, y = x.reshape(-1), y.reshape(-1)
        return (self._bounded(torch.cat([x, y])),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> Tensor:
        return state[0]

    def _bounded(self, x: Tensor) -> Tensor:
        if self.max_elements is None or x.numel() <= self.max_elements:
            return x
        rows = self.max_elements // x[0].numel()
        return x[:rows] if rows else x.reshape(-1)[: self.max_elements]
