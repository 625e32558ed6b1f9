"""A truth that a device finds out, asked for on the host without waiting for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def largest(x: Tensor) -> Tensor | None:
    """The largest element of a tensor, NaN if one is; None for types that have no NaN."""
    is_one = x.is_floating_point() and x.layout is torch.strided and not (x.is_nested or x.is_meta)
    return x.detach().amax() if is_one and x.numel() else None


class NonFiniteFlag:
    """True if one of some numbers is not finite, once that has come from the device.

    Args:
        numbers: Tensors of one element.
        nan_alone: True for NaN; an Inf is no fault.
    """

    def __init__(self, numbers: Sequence[Tensor], *, nan_alone: bool) -> None:
        self._event: torch.cuda.Event | None = None
        self._host: Tensor | None = None
        if not numbers:
            return
        device = numbers[0].device
        here = torch.stack([x.to(device, torch.float32) for x in numbers])
        is_bad = (here.isnan() if nan_alone else ~here.isfinite()).any()
        if device.type != "cuda":
            self._host = is_bad.cpu()
            return
        self._host = torch.empty((), dtype=torch.bool, pin_memory=True)
        self._host.copy_(is_bad, non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(device))

    def __bool__(self) -> bool:
        """True if that is known; false also as long as it has not come."""
        return self._has_come and bool(self._host)

    @property
    def is_known_to_be_finite(self) -> bool:
        """True if all are finite, and that has come."""
        return self._has_come and not bool(self._host)

    @property
    def _has_come(self) -> bool:
        return self._host is not None and (self._event is None or self._event.query())
