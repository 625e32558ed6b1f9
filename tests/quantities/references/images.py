"""Pictures, painted tile by tile."""

import numpy as np
from torch import nn


def painted(tiles):
    rows, columns, height, width = tiles.shape
    canvas = np.ones((rows * (height + 1) - 1, columns * (width + 1) - 1))
    for i, j in np.ndindex(rows, columns):
        top, left = i * (height + 1), j * (width + 1)
        canvas[top : top + height, left : left + width] = shades(tiles[i, j])
    return canvas


def shades(tile):
    finite = tile[np.isfinite(tile)]
    found = np.full(tile.shape, np.nan)
    if finite.size:
        span = finite.max() / 2 - finite.min() / 2
        found[np.isfinite(tile)] = (finite / 2 - finite.min() / 2) / span if span else 0.0
    return found


def feature_map(s):
    axis = s.options.get("feature_axis", -1 if isinstance(s.module, nn.Linear) else 1)
    samples, channels = s.options.get("samples", 4), s.options.get("channels", 16)
    return painted(np.moveaxis(s.y.numpy(), axis, 1)[:samples, :channels])


def weight_image(s):
    kernels = s.weight.numpy()
    inputs, outputs = s.options.get("inputs", 4), s.options.get("outputs", 16)
    return painted(kernels[:outputs, :inputs].swapaxes(0, 1))
