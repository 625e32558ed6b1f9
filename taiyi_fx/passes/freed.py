"""Tensors whose memory was given back: to read one would end the process.

Code that shards or offloads tensors frees their memory by ``x.untyped_storage().resize_(0)`` and
keeps the tensors, which then have all their elements and no data.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FREED = "its memory was given back (its storage was resized) before it was read"

_LOW = 2**32
"""Beyond the addresses of tensors without memory: an offset from 0."""


def are_freed(tensors: Sequence[Tensor]) -> bool:
    """True if the memory of one of these plain tensors was given back."""
    # An address takes a tenth of the time of a storage's size.
    is_suspicious = min(map(Tensor.data_ptr, tensors), default=_LOW) < _LOW
    return is_suspicious and any(map(is_freed, tensors))


def is_freed(x: Tensor) -> bool:
    """True if the memory of a tensor was given back; of a kind without a storage, False."""
    if type(x) not in (Tensor, torch.nn.Parameter) or x.layout is not torch.strided or x.is_meta:
        return False
    return x.numel() > 0 and x.untyped_storage().nbytes() == 0
