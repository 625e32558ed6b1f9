"""Products of matrices of float32 that are as exact as that, whatever torch may shorten them to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.probes.compiling import constant_when_compiled

_SHORT = ("tf32", "bf16")
_KEPT = -(2**13)
"""The bits of a number of float32 that TF32 has, too: all but the last 13 of its fraction."""


def product_of(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``, of float32 with all of its digits.

    `torch.set_float32_matmul_precision` lets GPUs multiply with the 10 bits of TF32, and CPUs with
    the 7 of bfloat16: enough for training, but not for the small eigenvalues of a covariance. The
    setting is of the whole process, so that it stays as it is, and the digits that it takes are
    multiplied by themselves.
    """
    if a.dtype is not torch.float32 or not is_shortened(a.device.type):
        return a @ b
    if a.is_cpu:
        return (a.double() @ b.double()).float()
    (a, of_a), (b, of_b) = _parts(a), _parts(b)
    return a @ b + (a @ of_b + of_a @ b)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """The part of some numbers that TF32 has, and the rest, of which it has enough."""
    kept = (x.contiguous().view(torch.int32) & _KEPT).view(torch.float32)
    return kept, x - kept


@constant_when_compiled  # a change makes torch compile anew
def is_shortened(device: str) -> bool:
    """True if torch may shorten the numbers of float32 that it multiplies on a type of device."""
    if device not in ("cuda", "cpu"):
        return False
    backends: Any = torch.backends
    if not hasattr(backends.mkldnn, "matmul"):
        return torch.get_float32_matmul_precision() != "highest"  # torch 2.6 to 2.8
    backend = backends.cuda if device == "cuda" else backends.mkldnn
    found = backend.matmul.fp32_precision
    return (backends.fp32_precision if found == "none" else found) in _SHORT
