"""Count, mean and squared deviations, merged pairwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix, count


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
        return count(rows.shape[0], x), mean, var * rows.shape[0]

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
