"""Padding among indices: how much of a sample is none of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State


class PaddingValue(NamedTuple):
    """Finished `Padding`: the number of samples with padding, and the sum of their shares of it."""

    n: Tensor
    shares: Tensor


@dataclass(frozen=True)
class Padding:
    """The shares of one index in the samples that have it at all; samples lie on the first axis.

    Counts are exact.

    Cost: one pass

    Attributes:
        index: The index that stands for padding.
    """

    index: int = 0

    def measure(self, x: Tensor) -> State:
        is_padding = torch.atleast_1d(x == self.index).unsqueeze(-1).flatten(1)
        shares = is_padding.sum(1).double() / max(1, is_padding.shape[1])
        return (shares > 0).sum(dtype=torch.int64), shares.sum()

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state  # none of it is of gradients

    def finish(self, state: State) -> PaddingValue:
        return PaddingValue(*state)
