"""Tensors whose memory was given back: to read one would end the process.

Code that shards or offloads tensors frees their memory by ``x.untyped_storage().resize_(0)`` and
keeps the tensors, which then have all their elements and no data.
"""

from __future__ import annotations

import torch
from torch import Tensor

FREED = "its memory was given back (its storage was resized) before it was read"

address_of = Tensor.data_ptr
"""The address of a tensor's first element, in a tenth of the time that `is_freed` takes."""
LOW = 2**32
"""No tensor without memory has a higher address, which is an offset from 0; few others a lower."""


def is_freed(x: Tensor) -> bool:
    """True if the memory of a tensor was given back; of a kind without a storage, False."""
    if type(x) not in (Tensor, torch.nn.Parameter) or x.layout is not torch.strided or x.is_meta:
        return False
    return x.numel() > 0 and x.untyped_storage().nbytes() == 0
