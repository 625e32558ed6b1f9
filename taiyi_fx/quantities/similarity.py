"""The cosine between two tensors, at any scale."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.reductions import accumulated


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / (||a|| ||b||) in [-1, 1], in float64; NaN where one is zero."""
    a, b = (accumulated(t).reshape(-1) for t in (a, b))
    # Scaled by their largest elements first: squares of tiny gradients would underflow.
    a, b = (t / t.abs().amax() for t in (a, b))
    # In blocks, whose partial sums are added in float64.
    whole = len(a) // _BLOCK * _BLOCK
    parts = [(t[:whole].view(-1, _BLOCK), t[whole:].view(1, -1)) for t in (a, b)]
    ab, aa, bb = (
        sum((p * q).sum(1).double().sum() for p, q in zip(x, y, strict=True))
        for x, y in ((parts[0], parts[1]), (parts[0], parts[0]), (parts[1], parts[1]))
    )
    return torch.as_tensor(ab / (aa * bb) ** 0.5).clamp(-1, 1)


_BLOCK = 1024
