"""Reductions of a call's input and its output's gradient together: gradients of each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import accumulated, count
from taiyi_fx.reductions.sums import norm
from taiyi_fx.reductions.weight_gradients import Shares, WeightGradient


class PerSampleValue(NamedTuple):
    """Finished `PerSample`: the number of samples, and their norms, or the mean or maximum."""

    n: Tensor
    norms: Tensor


@dataclass(frozen=True)
class PerSample:
    """The norm of each sample's share in the gradient of the weight.

    Cost: a product of positions x positions, or of the weight's shape, for each sample

    Attributes:
        reduce: ``"none"`` keeps all, else their mean or maximum.
        layer: The rule for the weight's gradient; taken from the module.
    """

    reduce: Literal["none", "mean", "max"] = "none"
    layer: WeightGradient | None = None
    needs_layer: ClassVar[bool] = True

    @property
    def has_fixed_shape(self) -> bool:
        """True if the state is one number, and not one for each sample."""
        return self.reduce != "none"

    def measure_pair(self, x: Tensor, g: Tensor) -> State:
        norms = _shares(self.layer, x, g, with_total=False).square_norms.sqrt()
        if self.reduce == "none":
            return count(norms.shape[0], norms), norms
        if self.reduce == "mean":
            return count(norms.shape[0], norms), norms.sum()
        return count(norms.shape[0], norms), norms.amax() if norms.shape[0] else norms.sum()

    def merge(self, a: State, b: State) -> State:
        if self.reduce == "none":
            return a[0] + b[0], torch.cat([a[1], b[1]])
        return a[0] + b[0], a[1] + b[1] if self.reduce == "mean" else torch.maximum(a[1], b[1])

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * abs(factor)

    def finish(self, state: State) -> PerSampleValue:
        n, norms = state
        return PerSampleValue(n, norms / n if self.reduce == "mean" else norms)


class NoiseValue(NamedTuple):
    """Finished `Noise`: what the gradient noise scale is estimated from.

    Attributes:
        n: The number of samples.
        square_norms: The sum over them of the squared norm of their share in the gradient.
        square_norm: The squared norm of the whole gradient.
        direction: The whole gradient but for a positive factor, element by element of the weight.
    """

    n: Tensor
    square_norms: Tensor
    square_norm: Tensor
    direction: Tensor


@dataclass(frozen=True)
class Noise:
    """Squared norms of the samples' shares in the gradient of the weight, and the gradient.

    Cost: that of the weight's gradient, twice

    Attributes:
        layer: The rule for the weight's gradient; taken from the module.
    """

    layer: WeightGradient | None = None
    needs_layer: ClassVar[bool] = True

    def measure_pair(self, x: Tensor, g: Tensor) -> State:
        squares, total, unit = _shares(self.layer, x, g, with_total=True)
        return count(squares.shape[0], squares), squares.sum(), unit, total

    def merge(self, a: State, b: State) -> State:
        (n_a, squares_a, unit_a, total_a), (n_b, squares_b, unit_b, total_b) = a, b
        unit = torch.maximum(unit_a, unit_b)
        down_a, down_b = ((u / unit).to(total_a.dtype) for u in (unit_a, unit_b))
        return n_a + n_b, squares_a + squares_b, unit, total_a * down_a + total_b * down_b

    def scale(self, state: State, factor: float) -> State:
        n, squares, unit, total = state
        return n, squares * factor**2, unit * abs(factor), total

    def finish(self, state: State) -> NoiseValue:
        n, squares, unit, total = state
        return NoiseValue(n, squares, (norm(total) * unit).square(), total)


def _shares(layer: WeightGradient | None, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
    assert layer is not None
    with torch.autocast(g.device.type, enabled=False):
        if not g.is_complex():  # else the parts of numbers count, not their absolute values
            g = accumulated(g)
            x = accumulated(x).to(g.dtype) if x.dtype.is_floating_point else x
        if g.ndim and g.shape[0] == 0:  # no sample: the shapes are those of one of zeros
            one = [t.new_zeros(1, *t.shape[1:]) for t in (x, g)]
            of_one = layer.shares(*one, with_total=with_total)
            return of_one._replace(square_norms=of_one.square_norms[:0])
        return layer.shares(x, g, with_total=with_total)
