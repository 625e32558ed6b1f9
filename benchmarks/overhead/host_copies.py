"""Counts the copies from an accelerator to the host that a program would make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_READS = {
    Tensor.item,
    Tensor.tolist,
    Tensor.numpy,
    Tensor.__bool__,
    Tensor.__int__,
    Tensor.__float__,
    Tensor.__index__,
    Tensor.nonzero,
    torch.nonzero,
    torch.equal,
    torch.allclose,
}


class HostCopies(TorchFunctionMode):
    """Counts, within its body, what Python reads of tensors that no ``cpu()`` brought to the host.

    What is seen is what Python calls, so that a model on a CPU shows what it would copy from a GPU.
    Other threads are not seen.

    Attributes:
        count: How many.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._on_host: list[torch.UntypedStorage] = []  # kept, so that no address comes again

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        is_copy = func is Tensor.cpu or (func is Tensor.to and _names_cpu(args[1:], kwargs))
        if (is_copy or func in _READS) and not self._is_on_host(args[0]):
            self.count += 1
        if is_copy:
            self._on_host.append(found.untyped_storage())
        return found

    def _is_on_host(self, x: Tensor) -> bool:
        address = x.untyped_storage().data_ptr()
        return any(storage.data_ptr() == address for storage in self._on_host)


def _names_cpu(args: Any, kwargs: Any) -> bool:
    given = [*args, *(kwargs or {}).values()]
    return any(isinstance(x, (str, torch.device)) and str(x) == "cpu" for x in given)
