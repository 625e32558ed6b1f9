"""A stand-in for the calls of a function, where a quantity needs a module."""

from __future__ import annotations

import operator
from typing import Any

from torch import nn

from taiyi_fx.passes.capture.function_sites import OPERATORS
from taiyi_fx.passes.capture.operators import IN_PLACE_OPERATORS
from taiyi_fx.passes.ir import Function, FunctionGroup

_IN_PLACE = IN_PLACE_OPERATORS | {operator.setitem}


class FunctionCall(nn.Module):
    """A stand-in module for the calls of a function, for the checks of a quantity.

    Attributes:
        function: The function, or a group of functions.
        inplace: True if it changes its first argument.
    """

    def __init__(
        self,
        function: Function | FunctionGroup,
        *,
        inplace: bool = False,
        caller: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.function = function
        self._caller = (caller,)  # in a tuple, as it is no part of this one
        name = getattr(function, "__name__", "")
        is_named_so = name.endswith("_") and not (name.startswith("__") or function in OPERATORS)
        self.inplace = inplace or function in _IN_PLACE or is_named_so

    @property
    def caller(self) -> nn.Module | None:
        """The module whose forward makes the calls, if known."""
        return self._caller[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function's own result."""
        return self.function(*args, **kwargs)  # pyright: ignore[reportCallIssue]
