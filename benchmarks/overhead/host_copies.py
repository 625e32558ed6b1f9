"""Counts the copies from an accelerator to the host that a program would make."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch import Tensor

_READS = "item tolist numpy __bool__ __int__ __float__ __index__ nonzero".split()


class HostCopies:
    """Counts, within its body, what Python reads of tensors that no ``cpu()`` brought to the host.

    What is seen is what Python calls, so that a model on a CPU shows what it would copy from a GPU.
    The methods themselves are replaced: in backward's hooks torch's function modes are off.

    Attributes:
        count: How many.
    """

    def __init__(self) -> None:
        self.count = 0
        self._on_host: list[torch.UntypedStorage] = []  # kept, so that no address comes again
        self._patches = ExitStack()

    def __enter__(self) -> HostCopies:
        for name in (*_READS, "cpu", "to", "clone"):
            counted = self._counted(name, getattr(Tensor, name))
            self._patches.enter_context(mock.patch.object(Tensor, name, counted))
        return self

    def __exit__(self, *_: Any) -> None:
        self._patches.close()

    def _counted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            is_copy = name == "cpu" or (name == "to" and _names_cpu([*args, *kwargs.values()]))
            if (is_copy or name in _READS) and not self._is_on_host(x):
                self.count += 1
            is_from_host = name == "clone" and self._is_on_host(x)
            found = method(x, *args, **kwargs)
            if is_copy or is_from_host:
                self._on_host.append(found.untyped_storage())
            return found

        return counted

    def _is_on_host(self, x: Tensor) -> bool:
        address = x.untyped_storage().data_ptr()
        return any(storage.data_ptr() == address for storage in self._on_host)


def _names_cpu(given: list[Any]) -> bool:
    return any(isinstance(x, (str, torch.device)) and str(x) == "cpu" for x in given)
