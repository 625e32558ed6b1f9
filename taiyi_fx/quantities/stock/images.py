"""Pictures: feature maps and convolution kernels as grids of grey tiles."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from taiyi_fx.passes.structure import tensor_named
from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.options import Range
from taiyi_fx.quantities.places import output, weight
from taiyi_fx.reductions import Maps

IMAGES = ("FeatureMap", "WeightImage")
"""The quantities whose values are pictures, H x W numbers from 0 (black) to 1 (white)."""


@quantity("FeatureMap", unit="grey from 0 to 1", accuracy="1e-6", maps=output.reduce(Maps))
def feature_map(maps: Tensor) -> Tensor:
    """A picture of the output's first feature maps: a row for each sample, a column a channel.

    A float32 tensor of rows x (H + 1) - 1 by columns x (W + 1) - 1 numbers. Each tile goes from
    its smallest element, 0, to its largest, 1; one that is constant is 0, and NaN and Inf are NaN.
    Lines of 1 lie between tiles.

    Formula: (y - min y) / (max y - min y), over the finite elements of each tile
    """
    return _grid(maps)


def _no_kernels(module: nn.Module) -> str | None:
    kernels = tensor_named(module, "weight")
    if isinstance(kernels, Tensor) and kernels.ndim != 4:
        return f"has a weight of the shape {tuple(kernels.shape)}, not a stack of 2-D kernels"
    return None


@quantity(
    "WeightImage",
    unit="grey from 0 to 1",
    accuracy="1e-6",
    requires=_no_kernels,
    kernels=weight.raw(max_elements=None),
)
def weight_image(
    kernels: Tensor,
    *,
    inputs: Annotated[int, Range(1, math.inf)] = 4,
    outputs: Annotated[int, Range(1, math.inf)] = 16,
) -> Tensor:
    """A picture of the first convolution kernels: a row for each input channel, a column an output.

    Columns are axis 0 of the weight and rows axis 1, so that a transposed convolution has its
    inputs as columns. Tiles are as those of ``FeatureMap``.

    Formula: (W - min W) / (max W - min W), over the finite elements of each kernel
    """
    if kernels.ndim != 4:
        raise ValueError(f"a picture takes 2-D kernels, not a shape of {tuple(kernels.shape)}")
    tiles = kernels[:outputs, :inputs].transpose(0, 1)
    return _grid(tiles.abs() if tiles.is_complex() else tiles)


def _grid(tiles: Tensor) -> Tensor:
    """Tiles, rows x columns x H x W, side by side."""
    # Halves, so that the span of the largest numbers is finite.
    half = tiles.to(torch.float64) / 2
    is_finite = half.isfinite()
    low = half.where(is_finite, torch.inf).amin(dim=(2, 3), keepdim=True)
    high = half.where(is_finite, -torch.inf).amax(dim=(2, 3), keepdim=True)
    span = high - low
    shades = torch.where(span > 0, (half - low) / span, 0.0)
    shades = shades.where(is_finite, torch.nan).to(torch.float32)
    lined = F.pad(shades, (0, 1, 0, 1), value=1.0).transpose(1, 2)
    return lined.flatten(2, 3).flatten(0, 1)[:-1, :-1]
