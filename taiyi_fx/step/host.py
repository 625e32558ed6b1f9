"""Asynchronous copies of tensors to the host, one from each device."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_is_on_host = operator.attrgetter("is_cpu")


class Copies:
    """Copies of tensors to the host, one copy for all tensors of a device."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = list(tensors)
        by_device: dict[torch.device, list[int]] = {}
        for i, tensor in enumerate(tensors):
            if not _is_on_host(tensor):
                by_device.setdefault(tensor.device, []).append(i)
        self._sent = [(_sent([tensors[i] for i in at]), at) for at in by_device.values()]

    @property
    def are_there(self) -> bool:
        """True if all have arrived."""
        for copy, _ in self._sent:
            if copy.arrival is not None and not copy.arrival.query():
                return False
        return True

    def tensors(self) -> list[Tensor]:
        """The tensors on the host; waits for them."""
        for copy, indices in self._sent:
            for i, part in zip(indices, _parts(copy), strict=True):
                self._tensors[i] = part
        self._sent = []  # only now: after an interrupt they are needed again
        return self._tensors


class _Copy(NamedTuple):
    """One vector of all elements from one device, with the event of its arrival."""

    joined: Tensor
    arrival: torch.Event | None
    originals: Sequence[Tensor]


def _sent(originals: Sequence[Tensor]) -> _Copy:
    device = originals[0].device
    # In a type wide enough for each.
    wide = torch.float32 if device.type == "mps" else torch.float64
    joined = torch.cat([_real(x).reshape(-1).to(wide) for x in originals])
    if device.type != "cuda":
        return _Copy(joined.cpu(), None, originals)
    host = torch.empty(joined.shape, dtype=wide, pin_memory=True)
    host.copy_(joined, non_blocking=True)
    return _Copy(host, torch.cuda.current_stream(device).record_event(), originals)


def _parts(copy: _Copy) -> Iterator[Tensor]:
    if copy.arrival is not None:
        copy.arrival.synchronize()
    start = 0
    for original in copy.originals:
        like = _real(original)
        piece = copy.joined[start : start + like.numel()].reshape(like.shape)
        start += like.numel()
        if original.is_complex():
            # A copy: its offset in the joined vector may not be aligned for complex numbers.
            piece = torch.view_as_complex(piece.clone())
        yield piece.to(original.dtype)


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x
