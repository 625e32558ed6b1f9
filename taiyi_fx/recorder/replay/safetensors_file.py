"""Files of tensors in the format of safetensors: read and written, without its package.

A number of 8 bytes, a header of JSON of that length, then the tensors' bytes. Nothing in such a
file is ever run, which a pickle could do.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.atomic_write import atomic_write

_TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_NAMES = {name: dtype for dtype, name in _TYPES.items()}
_LARGEST_HEADER = 100_000_000


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors and texts to a file, completely or not at all.

    Raises:
        TypeError: A tensor is of a type that the format does not have.
        OSError: The file cannot be written.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    # The widest first, so that each begins at a multiple of its elements' size.
    names = sorted(tensors, key=lambda name: -tensors[name].element_size())
    end = 0
    for name in names:
        x = tensors[name]
        if x.dtype not in _TYPES:
            raise TypeError(f"a file of safetensors has no {x.dtype}, of which {name} is")
        begin, end = end, end + x.numel() * x.element_size()
        entry = {"dtype": _TYPES[x.dtype], "shape": [*x.shape], "data_offsets": [begin, end]}
        header[name] = entry
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(file) as part, part.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            out.write(_bytes(tensors[name]))


def read_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and its texts.

    Raises:
        ValueError: It is no such file, or a part of it is missing.
        OSError: It cannot be read.
    """
    data = file.read_bytes()
    if len(data) < 8:
        raise ValueError(f"{file} is no file of safetensors: it has {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(_LARGEST_HEADER, len(data) - 8):
        raise ValueError(f"{file} is no file of safetensors, or was cut off in its header")
    try:
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        body = bytearray(data[8 + length :])
        return {name: _tensor(body, entry) for name, entry in header.items()}, metadata
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{file} is no whole file of safetensors: {error}") from error


def _tensor(body: bytearray, entry: Mapping[str, Any]) -> Tensor:
    dtype, shape, (begin, end) = _NAMES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= begin <= end <= len(body) or end - begin != size:
        raise ValueError(f"bytes {begin} to {end} are not there")
    if not size:
        return torch.empty(shape, dtype=dtype)
    found = torch.frombuffer(body, dtype=torch.uint8, offset=begin, count=size)
    return found.clone().view(dtype).reshape(shape)


def _bytes(x: Tensor) -> bytes:
    flat = x.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
