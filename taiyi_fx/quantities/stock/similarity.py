"""The cosine between two tensors, at any scale."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.reductions import accumulated
from taiyi_fx.reductions.sums import in_unit, norm


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / (||a|| ||b||) in [-1, 1], in float64; NaN where one is zero."""
    # In units first, where squares of tiny gradients would underflow.
    a, b = (in_unit(accumulated(t).reshape(-1))[0] for t in (a, b))
    # In blocks, whose partial sums are added in float64.
    whole = len(a) // _BLOCK * _BLOCK
    parts = (a[:whole].view(-1, _BLOCK), b[:whole].view(-1, _BLOCK)), (a[whole:], b[whole:])
    ab = sum((p * q).sum(-1).double().sum() for p, q in parts)
    return torch.as_tensor(ab / (norm(a) * norm(b))).clamp(-1, 1)


_BLOCK = 1024
