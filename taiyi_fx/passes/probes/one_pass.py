"""One pass over a tensor on a GPU, for all reductions that want some of what it tells.

A call of torch takes the host longer than a GPU takes to read some megabytes, and torch has no call
that gives a norm, a largest value and counts at once: so that is a small kernel in Triton's
language, which comes with torch where it has kernels for GPUs. Where there is none, or where it
cannot be built, each reduction takes calls of torch, as it does where it is the only one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from taiyi_fx.passes.ir import Elements
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.warning import warn

_Read = Callable[[Tensor], Tensor | None]

_TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))


def elements_of(x: Tensor) -> Elements | None:
    """The scalars of a tensor, without waiting; None where there is no such pass."""
    if not x.is_cuda or is_compiling() or x.dtype not in _TYPES or not _is_in_memory(x):
        return None
    read = _kernel()
    if read is None:
        return None
    dense = _dense(x)
    try:
        if dense.device.index == torch.cuda.current_device():
            found = read(dense)
        else:
            with torch.cuda.device(dense.device):
                found = read(dense)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - torch's own kernels give the same numbers
        _FOUND[:] = [None]
        reason = str(error).strip().partition("\n")[0]
        warn(
            "Triton cannot run here, so that readings of tensors on a GPU take several calls of "
            f"torch instead of one: {type(error).__name__}: {reason}"
        )
        return None
    return None if found is None else Elements(found)


def _is_in_memory(x: Tensor) -> bool:
    """True if what a kernel finds at a tensor's address are its elements."""
    is_plain = type(x) is Tensor or type(x) is nn.Parameter
    return is_plain and x.layout is torch.strided and x.numel() > 0 and x.data_ptr() != 0


def _dense(x: Tensor) -> Tensor:
    """The elements of a tensor side by side, in any order."""
    if x.is_neg():
        x = x.resolve_neg()
    if x.is_contiguous() or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)):
        return x
    return in_memory_order(x).contiguous()


def in_memory_order(x: Tensor) -> Tensor:
    """A tensor with its axes in the order that they have in memory, so that rows are no copy."""
    return x.permute(sorted(range(x.ndim), key=x.stride, reverse=True))


_FOUND: list[_Read | None] = []
"""The kernel's function, once it was asked for; None where it cannot be had."""


def _kernel() -> _Read | None:
    if not _FOUND and torch.version.hip:
        _FOUND.append(None)  # built kernels depend on more there, which nobody has tried
    if not _FOUND:
        try:
            from taiyi_fx.passes.probes.one_pass_kernel import read
        except ImportError:
            _FOUND.append(None)
        else:
            _FOUND.append(read)
    return _FOUND[0]
