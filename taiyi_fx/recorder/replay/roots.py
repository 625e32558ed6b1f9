"""The roots of backward: the tensors that a function differentiates, mostly its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from taiyi_fx.passes.structure import tensors_in

_BACKWARDS = (Tensor.backward, torch.autograd.backward, torch.autograd.grad)


class Roots(TorchFunctionMode):
    """Notes the roots of each backward in its body.

    Attributes:
        found: The roots so far.
        has_ended: True once a backward has run to its end, and none has begun since that did not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []
        self.has_ended = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # torch's own untyped protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs a function of torch, and notes the roots of a backward."""
        kwargs = kwargs or {}
        if func not in _BACKWARDS:
            return func(*args, **kwargs)
        first = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        self.found += tensors_in(first)
        self.has_ended = False
        value = func(*args, **kwargs)
        self.has_ended = True
        return value
