"""Functions as targets: calls of one, wherever a graph shows them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn

from taiyi_fx.matching import is_function
from taiyi_fx.passes.capture.captured import Capture, function_name
from taiyi_fx.passes.in_place import IN_PLACE_OPERATORS

Function = Callable[..., Any]


class FunctionCall(nn.Module):
    """Stands for the calls of a function, where a quantity asks what its module has.

    Attributes:
        function: What is called.
        inplace: Whether it changes its first argument.
    """

    def __init__(self, function: Function, *, inplace: bool = False) -> None:
        super().__init__()
        self.function = function
        name = getattr(function, "__name__", "")
        is_dunder = name.startswith("__")
        self.inplace = (
            inplace or function in IN_PLACE_OPERATORS or (name.endswith("_") and not is_dunder)
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call."""
        return self.function(*args, **kwargs)


def not_shown(function: Function, model: nn.Module, capture: Capture) -> str:
    """Why no graph of a model shows a call of a function, in words."""
    name = function_name(function)
    if capture.is_whole:
        return f"the model's graph has no call of {name}; it calls {_called(capture)}"
    calling = _seem_to_call(function, dict(model.named_modules()), capture.python)
    kept = calling or capture.python
    shown = "; ".join(f"{m or 'the model itself'!r}: {why}" for m, why in list(kept.items())[:3])
    more = f"; and {len(kept) - 3} more" if len(kept) > 3 else ""
    where = (
        f"{name} is called in a forward that stayed Python"
        if calling
        else f"no graph of the model has a call of {name}, and some forwards stayed Python"
    )
    return f"{where}, where only modules can be observed ({shown}{more})"


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


def _seem_to_call(
    function: Function, modules: Mapping[str, nn.Module], python: Mapping[str, str]
) -> dict[str, str]:
    """Forwards that stayed Python and use a function's name."""
    name = getattr(function, "__name__", "")
    found = {}
    for module, why in python.items():
        forward = inspect.unwrap(type(modules[module]).forward)
        code = getattr(forward, "__code__", None)
        if code is not None and name in code.co_names:
            found[module] = why
    return found


def unseen_calls(
    functions: Iterable[Function], model: nn.Module, capture: Capture
) -> dict[str, str]:
    """Modules whose forward stayed Python and seems to call one of the functions, and why."""
    modules = dict(model.named_modules())
    return {
        name: f"calls {function_name(function)} in a forward that stayed Python: it {why}"
        for function in functions
        for name, why in _seem_to_call(function, modules, capture.python).items()
    }
