"""Calls of torch's Python functions as torch dispatches them, with all arguments filled in.

A trace of torch.fx has this form, and so do the patterns that users look for in graphs.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

from torch import fx
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer


def as_dispatched(target: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call of one of torch's Python functions, as torch dispatches it."""
    if not _hands_on(target):
        return args, kwargs
    # Torch dispatches a call with a proxy instead of making it: here to a graph for this alone.
    apart = fx.Graph()
    tracer = GraphAppendingTracer(apart)
    nodes: dict[fx.Node, fx.Node] = {}

    def stand_in(node: fx.Node) -> Any:
        placeholder = apart.placeholder("x")
        nodes[placeholder] = node
        return fx.Proxy(placeholder, tracer)

    given, named = map_arg((args, kwargs), cast(Any, stand_in))
    try:
        target(*given, **named)
    except Exception:  # noqa: BLE001 - the call itself raises it again, when it is made
        return args, kwargs
    computed = [*apart.nodes][len(nodes) :]
    if [node.target for node in computed] != [target]:  # it consists of other calls
        return args, kwargs
    return map_arg((computed[0].args, computed[0].kwargs), nodes.__getitem__)


def _hands_on(target: Any) -> bool:
    is_torchs = (getattr(target, "__module__", None) or "").startswith("torch")
    names = target.__code__.co_names if isinstance(target, FunctionType) else ()
    return is_torchs and "handle_torch_function" in names
