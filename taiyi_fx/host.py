"""Results on their way to the host: one copy from each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.record import Value


class Pending(NamedTuple):
    """A result on its way to the host.

    Attributes:
        step: The step that it belongs to.
        module: The series' module, with its call.
        label: The quantity, as it was asked for.
        suffix: Which of its parts.
        mode: Of the forward.
        value: A number or a vector.
        present: A count on the device that is zero if there is no value.
        absence: Why there would be none.
    """

    step: int
    module: str
    label: str
    suffix: str
    mode: Mode
    value: Tensor
    present: Tensor | None = None
    absence: str = ""


def to_host(pending: Sequence[Pending]) -> list[Value | None]:
    """All values, by one copy from each device; None where the device says there is none."""
    parts = [part for result in pending for part in _parts(result)]
    by_device: dict[torch.device, list[int]] = {}
    for i, part in enumerate(parts):
        by_device.setdefault(part.device, []).append(i)
    chunks: list[Tensor] = parts.copy()
    for device, indices in by_device.items():
        host = _joined([parts[i] for i in indices], device).cpu()
        pieces = host.split([parts[i].numel() for i in indices])
        for i, piece in zip(indices, pieces, strict=True):
            chunks[i] = piece
    remaining = iter(chunks)
    return [_from_host(result, remaining) for result in pending]


def _joined(parts: list[Tensor], device: torch.device) -> Tensor:
    """One vector of all elements, in a type wide enough for each."""
    if all(part.ndim == 0 and part.dtype == parts[0].dtype for part in parts):
        return torch.stack(parts)
    wide = torch.float32 if device.type == "mps" else torch.float64
    return torch.cat([part.reshape(-1).to(wide) for part in parts])


def _parts(result: Pending) -> list[Tensor]:
    value = torch.view_as_real(result.value) if result.value.is_complex() else result.value
    return [value] if result.present is None else [value, result.present]


def _from_host(result: Pending, chunks: Iterator[Tensor]) -> Value | None:
    like, chunk = result.value, next(chunks)
    if result.present is not None and next(chunks).item() == 0:
        return None
    if like.is_complex():
        # A copy: in the joined vector it may lie where no complex number can.
        return torch.view_as_complex(chunk.clone().reshape(*like.shape, 2)).to(like.dtype)
    if like.ndim:
        return chunk.to(like.dtype).reshape(like.shape).clone()
    return chunk.item() if like.is_floating_point() else int(chunk.item())
