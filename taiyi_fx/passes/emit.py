"""Graph to Python function, with every module bound once instead of looked up at each call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from taiyi_fx.passes.proxies import IN_PLACE_OPERATORS


def emit(graph: fx.Graph, forwards: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """A function of the root and the graph's inputs that runs the graph.

    A traced graph module spends 7 % of a thin MLP's step on ``getattr(self.net, "0")`` and in
    ``nn.Module.__call__``. Here a module's call is a call of its forward. That is the same only
    while the module has no hooks, which whoever calls the function has to see to.

    Args:
        graph: The graph; left as it is.
        forwards: The forward of each module that the graph calls, by name.
    """
    graph = copy.deepcopy(graph)
    meant: dict[int, Callable[..., Any]] = {}  # by the identity of what stands for it
    for node in graph.nodes:
        function = None
        if node.op == "call_module":
            function = forwards[node.target]
        elif node.target in IN_PLACE_OPERATORS:
            # Written as `a += b`, it would change what `a` stands for where that is a number.
            function = node.target
        if function is not None:
            node.op, node.target = "call_function", _named(node.name)
            meant[id(node.target)] = function
    code = graph.python_code("self")
    scope: dict[str, Any] = {
        name: meant.get(id(value), value) for name, value in code.globals.items()
    }
    exec(compile(code.src, f"<taiyi_fx {id(graph):#x}>", "exec"), scope)
    return scope["forward"]


def _named(name: str) -> Callable[..., Any]:
    # torch.fx writes a torch function by its path, which for a bound method would be wrong: so it
    # is given a name among the globals, to stand for what is meant.
    def meant(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    meant.__name__ = meant.__qualname__ = name
    meant.__module__ = "taiyi_fx"
    return meant
