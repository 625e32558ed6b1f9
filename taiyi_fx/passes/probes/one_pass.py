"""One pass over a tensor on a GPU, for all reductions that want some of what it tells.

A call of torch takes the host longer than a GPU takes to read some megabytes, and torch has no call
that gives a norm, a largest value and counts at once, and none that adds squares of half precision
up in float64 by one launch: so these are small kernels in Triton's language, which comes with torch
where it has kernels for GPUs. Where there are none, or where they cannot be built, each reduction
takes calls of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from taiyi_fx.passes.ir import Elements
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.warning import warn

_Kernel = Callable[[Tensor], Tensor | None]

_TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))


class _Kernels(NamedTuple):
    """The readers of a dense tensor on the current device; None where nothing can be launched.

    Attributes:
        elements: Gives the vector of `ir.Elements`.
        norm: Gives the Euclidean norm.
    """

    elements: _Kernel
    norm: _Kernel


def elements_of(x: Tensor) -> Elements | None:
    """The scalars of a tensor, without waiting; None where there is no such pass."""
    kernels = _kernels_for(x)
    found = None if kernels is None else _read(kernels.elements, x)
    return None if found is None else Elements(found)


def norm_of(x: Tensor) -> Tensor | None:
    """The Euclidean norm of a tensor in float64, without waiting; None where it has no pass."""
    kernels = _kernels_for(x)
    return None if kernels is None else _read(kernels.norm, x)


def _kernels_for(x: Tensor) -> _Kernels | None:
    if not x.is_cuda or is_compiling() or x.dtype not in _TYPES or not _is_in_memory(x):
        return None
    return _kernels()


def _read(kernel: _Kernel, x: Tensor) -> Tensor | None:
    dense = _dense(x)
    try:
        if dense.device.index == torch.cuda.current_device():
            return kernel(dense)
        with torch.cuda.device(dense.device):
            return kernel(dense)
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


_FOUND: list[_Kernels | None] = []
"""The kernels, once they were asked for; None where they cannot be had."""


def _kernels() -> _Kernels | None:
    if not _FOUND and torch.version.hip:
        _FOUND.append(None)  # built kernels depend on more there, which nobody has tried
    if not _FOUND:
        try:
            from taiyi_fx.passes.probes.one_pass_kernel import elements, norm
        except ImportError:
            _FOUND.append(None)
        else:
            _FOUND.append(_Kernels(elements, norm))
    return _FOUND[0]
