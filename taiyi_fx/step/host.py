"""Asynchronous copies of tensors to the host, few for many tensors; and of numbers from it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.reductions.rows import on_device

_is_on_host = operator.attrgetter("is_cpu")

SMALL = 2**14
"""Elements so few that they are copied side by side; larger tensors are copied as they are."""


class Copies:
    """Copies of tensors to the host, one for all small tensors of a device and a type.

    Tensors of a device are not held.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors: list[Any] = list(tensors)
        together: dict[tuple[torch.device, torch.dtype, int], list[int]] = {}
        for i, x in enumerate(tensors):
            if not _is_on_host(x):
                self._tensors[i] = None
                own = 0 if x.numel() <= SMALL else 1 + i
                together.setdefault((x.device, x.dtype, own), []).append(i)
        self._sent = [(_sent([tensors[i] for i in at]), at) for at in together.values()]
        devices = {device for device, *_ in together if device.type == "cuda"}
        self._arrivals = [_recorded(device) for device in devices]

    @property
    def are_there(self) -> bool:
        """True if all have arrived."""
        return all(arrival.query() for _, arrival in self._arrivals)

    def tensors(self) -> list[Tensor]:
        """The tensors on the host; waits for them."""
        for device, arrival in self._arrivals:
            with torch.cuda.device(device):  # another thread's is the first one
                arrival.synchronize()
        for copy, indices in self._sent:
            for i, part in zip(indices, _parts(copy), strict=True):
                self._tensors[i] = part
        self._sent, self._arrivals = [], []  # only now: after an interrupt they are needed again
        return self._tensors


def device_of(parts: Iterable[object]) -> torch.device | None:
    """The device of the first tensor that is not on the host; None if there is none."""
    for part in parts:
        if isinstance(part, Tensor) and not part.is_cpu:
            return part.device
    return None


def beside(part: Tensor, device: torch.device | None) -> Tensor:
    """A part of a state on the device of others, without waiting; as it is if there is none."""
    if device is None or not part.is_cpu:
        return part
    return on_device(part.reshape(-1).tolist(), device, part.dtype).reshape(part.shape)


def size_elsewhere(tensors: Sequence[object]) -> int:
    """The number of elements that would be copied to the host; those on no device cannot."""
    away = [x for x in tensors if isinstance(x, Tensor) and not _is_on_host(x)]
    return sum(x.numel() for x in away if x.device.type != "meta")


class _Copy(NamedTuple):
    """One vector of all elements of some tensors of one type, with their shapes."""

    joined: Tensor
    shapes: Sequence[torch.Size]
    is_complex: bool


def _sent(originals: Sequence[Tensor]) -> _Copy:
    flat = [_real(x).reshape(-1) for x in originals]
    is_small = originals[0].numel() <= SMALL
    joined = torch.cat(flat) if is_small else flat[0].resolve_neg()
    if joined.device.type == "cuda":
        host = torch.empty(joined.shape, dtype=joined.dtype, pin_memory=True)
        joined = host.copy_(joined, non_blocking=True)
    shapes = [_real(x).shape for x in originals]
    return _Copy(joined.cpu(), shapes, originals[0].is_complex())


def _recorded(device: torch.device) -> tuple[torch.device, torch.cuda.Event]:
    """An event that is reached when all has arrived; who waits for it leaves its core to others."""
    event = torch.cuda.Event(blocking=True)
    event.record(torch.cuda.current_stream(device))
    return device, event


def _parts(copy: _Copy) -> Iterator[Tensor]:
    pieces = copy.joined.split([shape.numel() for shape in copy.shapes])
    for piece, shape in zip(pieces, copy.shapes, strict=True):
        # Who keeps one part does not keep all of them. A number is read at once.
        is_kept = len(copy.shapes) > 1 and len(piece) > 1
        part = (piece.clone() if is_kept else piece).reshape(shape)
        yield torch.view_as_complex(part) if copy.is_complex else part


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
