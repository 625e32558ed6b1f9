"""Callables that stand on a module in place of its forward."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from torch import nn


class Stand:
    """A callable that stands on a module in place of its forward.

    A copy or a pickle of the module gets the module's own forward back.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.plain: Callable[..., Any] = module.forward
        self._kind = type(self)
        self._kinds: dict[str, type[Stand]] = {}

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.plain)

    @property
    def __code__(self) -> CodeType:
        # torch.compile asks a graph module's forward for it.
        return type(self).__call__.__code__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain(*args, **kwargs)

    def take_own_code(self, key: str) -> None:
        """Gives this one, for a set of due readings, a class with a code object of its own."""
        if key not in self._kinds:
            call = with_own_code(self._kind.__call__, type(self.module))
            own = {"__call__": call, "__module__": self._kind.__module__}
            self._kinds[key] = type(self._kind.__name__, (self._kind,), own)
        self.__class__ = self._kinds[key]  # pyright: ignore[reportAttributeAccessIssue] - of its kind

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        return copy.deepcopy(self.plain, memo)

    def __reduce__(self) -> Any:  # pickle's own untyped protocol
        return getattr, (self.module, "forward")


def with_own_code(forward: Any, kind: type[nn.Module]) -> Any:
    """A copy of a function, as the forward of one module, with a code object of its own.

    torch.compile keeps what it compiled by code object, up to eight graphs for each. By the name it
    remembers which sizes have changed.
    """
    code = forward.__code__.replace(co_name=f"forward_of_{kind.__name__}")
    return FunctionType(
        code, forward.__globals__, forward.__name__, forward.__defaults__, forward.__closure__
    )


def is_probed(module: nn.Module) -> bool:
    """Whether a probed forward stands on a module."""
    return isinstance(vars(module).get("forward"), Stand)
