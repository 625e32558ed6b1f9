"""Narrow formats of numbers: what tensors become in them, with scales as hardware takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

NumberFormat = Literal[
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "mxfp8_e4m3",
    "mxfp8_e5m2",
    "mxfp4",
    "nvfp4",
]
"""``float16`` and ``bfloat16`` take numbers as they are. Of ``float8``, a tensor's largest number
becomes the format's largest. ``mx`` formats scale 32 neighbours along the last axis by a power of
two (OCP Microscaling 1.0), and ``nvfp4`` 16 of them by a float8_e4m3fn beside one scale for all."""

NUMBER_FORMATS: tuple[NumberFormat, ...] = get_args(NumberFormat)

_MX_BLOCK, _NV_BLOCK = 32, 16
_E2M1_LARGEST = 6.0


def in_format(x: Tensor, name: NumberFormat) -> Tensor:
    """A tensor of float32 or float64 as a format keeps it; numbers too large become its largest.

    NaN and Inf make NaN of all that is scaled with them.
    """
    return _ROUNDED[name](x)


def _cast(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    largest = torch.finfo(dtype).max

    def rounded(x: Tensor) -> Tensor:
        # Casts do not agree on what lies beyond the largest number; MX formats and hardware clamp.
        return x.clamp(-largest, largest).to(dtype).to(x.dtype)

    return rounded


def _e2m1(x: Tensor) -> Tensor:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, and of two the one with an even last bit."""
    size = x.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0)).to(x.dtype)
    return ((x / step).round() * step).clamp(-_E2M1_LARGEST, _E2M1_LARGEST)


def _of_tensor(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Scales the largest number of a tensor to the largest of a format."""
    cast, largest = _cast(dtype), torch.finfo(dtype).max

    def rounded(x: Tensor) -> Tensor:
        scale = _or_one(x.abs().amax() / largest) if x.numel() else 1.0
        return cast(x / scale) * scale

    return rounded


def _of_blocks(rounded: Callable[[Tensor], Tensor], exponent: int) -> Callable[[Tensor], Tensor]:
    """Scales blocks by the power of two that brings their largest number to an exponent."""

    def in_blocks(x: Tensor) -> Tensor:
        blocks = _blocks(x, _MX_BLOCK)
        largest = blocks.abs().amax(-1, keepdim=True)
        power = (torch.frexp(largest).exponent - 1 - exponent).clamp(-127, 127)
        scale = torch.ldexp(torch.ones_like(largest), power)
        scale = torch.where(largest.isfinite(), torch.where(largest > 0, scale, 1.0), torch.nan)
        return _unblocked(rounded(blocks / scale) * scale, x)

    return in_blocks


def _nvfp4(x: Tensor) -> Tensor:
    blocks = _blocks(x, _NV_BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True) / _E2M1_LARGEST
    of_all = _or_one(largest.amax() / torch.finfo(torch.float8_e4m3fn).max) if x.numel() else 1.0
    scale = _cast(torch.float8_e4m3fn)(largest / of_all) * of_all
    safe = torch.where(scale == 0, 1.0, scale)
    return _unblocked(torch.where(scale == 0, 0.0, _e2m1(blocks / safe) * scale), x)


def _or_one(scale: Tensor) -> Tensor:
    """A scale, 1 instead of 0, and NaN instead of Inf."""
    return torch.where(scale == 0, 1.0, torch.where(scale.isfinite(), scale, torch.nan))


def _blocks(x: Tensor, size: int) -> Tensor:
    """Neighbours along the last axis, ... x blocks x size, filled up with zeros."""
    x = x if x.ndim else x.reshape(1)
    padded = functional.pad(x, (0, -x.shape[-1] % size))
    return padded.unflatten(-1, (-1, size)) if padded.shape[-1] else padded.unsqueeze(-1)


def _unblocked(blocks: Tensor, like: Tensor) -> Tensor:
    n = like.shape[-1] if like.ndim else 1
    return blocks.flatten(-2)[..., :n].reshape(like.shape)


_ROUNDED: dict[NumberFormat, Callable[[Tensor], Tensor]] = {
    "float16": _cast(torch.float16),
    "bfloat16": _cast(torch.bfloat16),
    "float8_e4m3fn": _of_tensor(torch.float8_e4m3fn),
    "float8_e5m2": _of_tensor(torch.float8_e5m2),
    "mxfp8_e4m3": _of_blocks(_cast(torch.float8_e4m3fn), 8),
    "mxfp8_e5m2": _of_blocks(_cast(torch.float8_e5m2), 15),
    "mxfp4": _of_blocks(_e2m1, 2),
    "nvfp4": _nvfp4,
}
