"""Functions as targets: their calls, wherever a graph shows them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import nn

from taiyi_fx.config.match import is_function
from taiyi_fx.passes.capture.captured import Capture, function_name
from taiyi_fx.passes.capture.function_sites import OPERATORS
from taiyi_fx.passes.capture.operators import IN_PLACE_OPERATORS

Function = Callable[..., Any]

_IN_PLACE = IN_PLACE_OPERATORS | {operator.setitem}


class FunctionCall(nn.Module):
    """A stand-in module for the calls of a function, for the checks of a quantity.

    Attributes:
        function: The function.
        inplace: True if it changes its first argument.
    """

    def __init__(self, function: Function, *, inplace: bool = False) -> None:
        super().__init__()
        self.function = function
        name = getattr(function, "__name__", "")
        is_named_so = name.endswith("_") and not (name.startswith("__") or function in OPERATORS)
        self.inplace = inplace or function in _IN_PLACE or is_named_so

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call."""
        return self.function(*args, **kwargs)


def not_shown(function: Function, model: nn.Module, capture: Capture) -> str:
    """The reason why no graph of a model shows a call of a function, in words."""
    name = function_name(function)
    if capture.is_whole:
        return f"the model's graph has no call of {name}; it calls {_called(capture)}"
    shown = list(capture.python.items())[:3]
    why = "; ".join(f"{module or 'the model itself'!r}: {why}" for module, why in shown)
    more = f"; and {len(capture.python) - 3} more" if len(capture.python) > 3 else ""
    return (
        f"no graph of the model has a call of {name}, and none of the forwards that stayed Python "
        f"seems to call it ({why}{more})"
    )


def _called(capture: Capture) -> str:
    """The functions that graphs call, in words."""
    names = {
        str(node.target) if node.op == "call_method" else function_name(node.target)
        for graphs in capture.graphs.values()
        for captured in graphs
        for node in captured.graph.nodes
        if node.op == "call_method" or (node.op == "call_function" and is_function(node.target))
    }
    return ", ".join(sorted(names)) or "none"
