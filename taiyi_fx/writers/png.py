"""Pictures as PNG files, with the standard library."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor

_RGB = 2
_NOT_FINITE = (213, 94, 0)


def png(picture: Tensor) -> bytes:
    """A picture as a PNG file; see `pixels`."""
    height, width = picture.shape
    # Each row begins with the filter that was used: none.
    rows = torch.nn.functional.pad(pixels(picture).reshape(height, -1), (1, 0))
    head = struct.pack(">IIBBBBB", width, height, 8, _RGB, 0, 0, 0)
    data = zlib.compress(rows.numpy().tobytes())
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def pixels(picture: Tensor) -> Tensor:
    """The pixels of a picture, H x W x 3 bytes: grey, and orange for NaN and Inf.

    Args:
        picture: H x W numbers from 0 (black) to 1 (white), clamped to these.
    """
    shades = picture.nan_to_num().clamp(0, 1).mul(255).round().to(torch.uint8)
    orange = torch.tensor(_NOT_FINITE, dtype=torch.uint8)
    return torch.where(picture.isfinite()[..., None], shades[..., None], orange)


def _chunk(name: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + check
