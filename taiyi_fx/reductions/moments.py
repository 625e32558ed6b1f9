"""Count, mean and powers of the deviations from it, merged pairwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.power_sums import central_powers, central_squares
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, count, row_axes
from taiyi_fx.reductions.sums import centred, is_fast, power_of_two, square_sums, wide


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
        return (self.square_deviations / (n - 1).clamp(min=0)).sqrt()


@dataclass(frozen=True)
class Moments:
    """Count, mean and squared deviations, over all elements or for each feature, in float64.

    Merged pairwise (Chan, Golub, LeVeque 1983), never by subtracting large sums.

    Cost: three passes

    Attributes:
        reduce: ``"all"`` for one mean over all elements, ``"feature"`` for one per feature.
        feature_axis: The axis of the features.
    """

    reduce: Literal["all", "feature"] = "all"
    feature_axis: FeatureAxis = "auto"

    def __post_init__(self) -> None:
        if self.reduce not in ("all", "feature"):
            raise ValueError(f"reduce must be 'all' or 'feature', not {self.reduce!r}")

    @property
    def is_over_elements(self) -> bool:
        """True if all elements are taken together."""
        return self.reduce == "all"

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        x = x.reshape(1) if x.ndim == 0 else x
        all_axes = tuple(range(x.ndim))
        axes = all_axes if self.reduce == "all" else row_axes(x, self.feature_axis)
        if not axes:  # one row: every element is a feature
            x, axes = x.unsqueeze(0), (0,)
        n = 1
        for axis in axes:
            n *= x.shape[axis]
        if n == 0:
            zeros = x.sum(axes).to(wide(x.device))
            return count(0, x), zeros, zeros.clone()
        found = central_squares(x, axes, n) if is_fast(x) else None
        if found is not None:
            return count(n, x), *found
        mean, deviations = centred(x, axes)
        return count(n, x), mean, square_sums(deviations, axes)

    def merge(self, a: State, b: State) -> State:
        (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
        delta, share = mean_b - mean_a, share_of(n_b, n_a + n_b, mean_b)
        m2 = m2_a + m2_b + delta.square() * (n_a * share)
        return n_a + n_b, mean_a + delta * share, m2

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor, state[2] * factor**2

    def finish(self, state: State) -> MomentsValue:
        n, mean, m2 = state
        return MomentsValue(n, torch.where(n == 0, torch.nan, mean), m2)


@dataclass(frozen=True)
class BatchMoments:
    """`Moments` of each feature, batch by batch: along a first axis, one entry for each call.

    A step's micro-batches stay apart, as BatchNorm normalises each by itself. Those that ranks
    have at the same time are one batch, merged pairwise.

    Cost: three passes

    Attributes:
        feature_axis: The axis of the features.
    """

    feature_axis: FeatureAxis = "auto"
    has_fixed_shape: ClassVar[bool] = False
    keeps_batches: ClassVar[bool] = True

    @property
    def _of_one(self) -> Moments:
        return Moments("feature", self.feature_axis)

    def measure(self, x: Tensor) -> State:
        n, mean, m2 = self._of_one.measure(x)
        return n.reshape(1, 1), mean.unsqueeze(0), m2.unsqueeze(0)

    def merge(self, a: State, b: State) -> State:
        return tuple(torch.cat(pair) for pair in zip(a, b, strict=True))

    def merge_ranks(self, a: State, b: State) -> State:
        """The statistic of batches of which each rank has a part."""
        both = min(len(a[0]), len(b[0]))
        merged = self._of_one.merge(tuple(x[:both] for x in a), tuple(x[:both] for x in b))
        rest = a if len(a[0]) > both else b  # of a rank that had more of them
        return tuple(torch.cat([x, y[both:]]) for x, y in zip(merged, rest, strict=True))

    def scale(self, state: State, factor: float) -> State:
        return self._of_one.scale(state, factor)

    def finish(self, state: State) -> MomentsValue:
        return self._of_one.finish(state)


class KurtosisValue(NamedTuple):
    """Finished `FourthMoment`: number of elements and mean((x - mean)^4) / variance^2."""

    n: Tensor
    kurtosis: Tensor


@dataclass(frozen=True)
class FourthMoment:
    """Count, mean and sums of the deviations' powers up to the fourth, over all elements.

    Merged pairwise (Pebay 2008), in float64, where fourth powers of any float32 have a place.

    Cost: five passes
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        x = accumulated(x).reshape(-1)
        if x.shape[0] == 0:
            zero = x.sum().to(wide(x.device))
            return count(0, x), zero, zero, zero, zero
        powers = central_powers(x) if is_fast(x) else None
        if powers is not None:
            return count(x.shape[0], x), *(x.new_tensor(p, dtype=torch.float64) for p in powers)
        mean, deviations = centred(x, (0,))
        # In float32 the powers of what is left are in range: none is larger than 2.
        size = power_of_two(deviations)
        u = deviations / size
        size, n = size.to(mean.dtype), x.shape[0]
        square = u.square()
        powers = square, square * u, square.square()
        m2, m3, m4 = (power.sum().to(wide(x.device)) for power in powers)
        return count(n, x), mean, m2 * size**2, m3 * size**3, m4 * size**4

    def merge(self, a: State, b: State) -> State:
        (n_a, mean_a, m2_a, m3_a, m4_a), (n_b, mean_b, m2_b, m3_b, m4_b) = a, b
        n, d = n_a + n_b, mean_b - mean_a
        p, q = share_of(n_a, n, mean_a), share_of(n_b, n, mean_b)
        m2 = m2_a + m2_b + d**2 * (n_a * q)
        m3 = m3_a + m3_b + d**3 * (n_a * q) * (p - q) + 3 * d * (p * m2_b - q * m2_a)
        m4 = (
            m4_a
            + m4_b
            + d**4 * (n_a * q) * (p**2 - p * q + q**2)
            + 6 * d**2 * (p**2 * m2_b + q**2 * m2_a)
            + 4 * d * (p * m3_b - q * m3_a)
        )
        return n, mean_a + d * q, m2, m3, m4

    def scale(self, state: State, factor: float) -> State:
        n, mean, *powers = state
        return n, mean * factor, *(m * factor**k for k, m in enumerate(powers, start=2))

    def finish(self, state: State) -> KurtosisValue:
        n, _, m2, _, m4 = state
        return KurtosisValue(n, n * m4 / m2.square())


def share_of(part: Tensor, whole: Tensor, like: Tensor) -> Tensor:
    """The share of one count in another, 0 of nothing, in the type of ``like``."""
    # Counts are integers: divided as they are, they would give the default float type.
    return part.to(like.dtype) / whole.clamp(min=1)
