"""Functions as targets: their calls, wherever a graph shows them."""

from __future__ import annotations

from torch import nn

from taiyi_fx.config.match import is_function
from taiyi_fx.passes.capture.captured import Capture, function_name
from taiyi_fx.passes.capture.function_sites import unseen_in
from taiyi_fx.passes.ir import Function, FunctionGroup
from taiyi_fx.passes.module_tree import submodule


def not_shown(
    function: Function | FunctionGroup,
    model: nn.Module,
    capture: Capture,
    within: frozenset[str] | None = None,
) -> str:
    """The reason why no graph of a model shows a call of a function, in words.

    Args:
        function: The function, or a group of them.
        model: The model.
        capture: Its graphs.
        within: Names of the modules whose forwards would make the call; None for all.
    """
    name = function_name(function)
    if within is not None:
        many = "that module" if len(within) == 1 else f"those {len(within)} modules"
        elsewhere = [m for m, sites in capture.sites.items() if _has(capture, sites, function)]
        hint = f"; {_some(elsewhere)} does" if elsewhere else ", nor does that of any other"
        shown = f"the forward of {many} makes no call of {name} that can be seen{hint}"
        return "; ".join([shown, *_unseen(function, model, within)])
    if capture.is_whole:
        return f"the model's graph has no call of {name}; it calls {_called(capture)}"
    shown = list(capture.python.items())[:3]
    why = "; ".join(f"{module or 'the model itself'!r}: {why}" for module, why in shown)
    more = f"; and {len(capture.python) - 3} more" if len(capture.python) > 3 else ""
    return (
        f"no graph of the model has a call of {name}, and none of the forwards that stayed Python "
        f"seems to call it ({why}{more})"
    )


def _unseen(
    function: Function | FunctionGroup, model: nn.Module, within: frozenset[str]
) -> list[str]:
    """The reasons why calls in some modules cannot be seen, in words, each once."""
    found: dict[str, str] = {}
    for module in (submodule(model, name) for name in sorted(within)):
        found |= unseen_in(module, function) if isinstance(function, FunctionGroup) else {}
    return [f"of {name}, {why}" for name, why in found.items()]


def _has(capture: Capture, sites: list[str], function: Function | FunctionGroup) -> bool:
    return any(capture.functions[site] is function for site in sites)


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


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
