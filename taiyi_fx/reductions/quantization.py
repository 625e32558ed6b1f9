"""The noise that a narrower format adds to a tensor, beside the tensor itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.number_formats import NUMBER_FORMATS, NumberFormat, in_format
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix
from taiyi_fx.reductions.sums import norm_of_both, square_sums, wide


class NoiseOfFormatValue(NamedTuple):
    """Finished `NoiseOfFormat`: norms of each feature of a tensor, and of what rounding adds."""

    signal: Tensor
    noise: Tensor


@dataclass(frozen=True)
class NoiseOfFormat:
    """The norm of each feature, and of its difference from what a narrower format makes of it.

    Each tensor is rounded by itself, with scales of its own, as it would be in training. Of formats
    that have one scale for a tensor, those of several micro-batches or ranks are thus not one.

    Cost: 35 passes for bfloat16, to 240 for nvfp4

    Attributes:
        format: The format.
        feature_axis: The axis of the features.
    """

    format: NumberFormat = "mxfp8_e4m3"
    feature_axis: FeatureAxis = "auto"
    takes_whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.format not in NUMBER_FORMATS:
            raise ValueError(f"format is one of {', '.join(NUMBER_FORMATS)}, not {self.format!r}")

    def measure(self, x: Tensor) -> State:
        if x.is_complex():
            x = torch.view_as_real(x.resolve_conj()).flatten(-2)
        x = accumulated(x)
        # A weight of a norm has one axis, whatever axis its module's tensors have features on.
        axis = 0 if x.ndim == 1 else self.feature_axis
        both = (as_matrix(t, axis) for t in (x, in_format(x, self.format) - x))
        return tuple(square_sums(t, (0,)).sqrt() for t in both)

    def merge(self, a: State, b: State) -> State:
        return tuple(map(norm_of_both, a, b))

    def scale(self, state: State, factor: float) -> State:
        return tuple(n.to(wide(n.device)) * abs(factor) for n in state)

    def finish(self, state: State) -> NoiseOfFormatValue:
        return NoiseOfFormatValue(*state)
