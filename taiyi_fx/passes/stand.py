"""Callables that stand on a module in place of its forward."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import nn


class Stand:
    """A callable that stands on a module in place of its forward.

    A copy or a pickle of the module gets the module's own forward back.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.plain: Callable[..., Any] = module.forward

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.plain)

    @property
    def __code__(self) -> CodeType:
        # torch.compile asks a graph module's forward for it.
        return type(self).__call__.__code__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        return copy.deepcopy(self.plain, memo)

    def __reduce__(self) -> Any:  # pickle's own untyped protocol
        return getattr, (self.module, "forward")


def is_probed(module: nn.Module) -> bool:
    """Whether a probed forward stands on a module."""
    return isinstance(vars(module).get("forward"), Stand)
