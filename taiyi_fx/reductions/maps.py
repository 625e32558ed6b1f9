"""The first channels of the first samples, for a picture of feature maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, copied


@dataclass(frozen=True)
class Maps:
    """A copy of the first channels of the first samples, as samples x channels x H x W.

    The channels are the feature axis of a tensor with four axes; an unbatched image of a
    convolution is one sample. The state has no fixed shape, so in compiled code only values are
    kept, not gradients.

    Cost: a copy of the part

    Attributes:
        samples: The number of samples; of several micro-batches and ranks, the first ones.
        channels: The number of channels.
        feature_axis: The axis of the channels.
    """

    samples: int = 4
    channels: int = 16
    feature_axis: FeatureAxis = "auto"
    has_fixed_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("samples", "channels"):
            count = getattr(self, name)
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a positive whole number, not {count!r}")

    def measure(self, x: Tensor) -> State:
        axis = 1 if self.feature_axis == "auto" else self.feature_axis
        if x.ndim != 4 and not (x.ndim == 3 and axis == -3):
            raise ValueError(
                f"feature maps have the axes N, C, H and W, but the shape is {tuple(x.shape)}"
            )
        maps = x.movedim(axis, -3).reshape(-1, *x.movedim(axis, -3).shape[-3:])
        return (copied(accumulated(maps[: self.samples, : self.channels])),)

    def merge(self, a: State, b: State) -> State:
        """Joins samples.

        Raises:
            ValueError: They differ in size.
        """
        x, y = a[0], b[0]
        if x.shape[1:] != y.shape[1:]:
            raise ValueError(
                f"samples of the sizes {tuple(x.shape[1:])} and {tuple(y.shape[1:])} do not "
                "fit in one picture"
            )
        return (torch.cat([x, y])[: self.samples],)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> Tensor:
        return state[0]
