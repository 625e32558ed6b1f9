"""Reductions over the rows of each feature."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix


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
