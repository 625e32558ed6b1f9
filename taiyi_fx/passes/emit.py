"""Graph to Python function, with every module bound once instead of looked up at each call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import fx

from taiyi_fx.passes.proxies import IN_PLACE_OPERATORS

Note = Callable[[str, Any], None]


def emit(
    graph: fx.Graph, forwards: Mapping[str, Callable[..., Any]], note: Note | None = None
) -> Callable[..., Any]:
    """A function of the root and the graph's inputs that runs the graph.

    A traced graph module spends 7 % of a thin MLP's step on ``getattr(self.net, "0")`` and in
    ``nn.Module.__call__``. Here a module's call is a call of its forward. That is the same only
    while the module has no hooks, which whoever calls the function has to see to.

    Args:
        graph: The graph; left as it is.
        forwards: The forward of each module that the graph calls, by name.
        note: Is told of each node's name and of what the node made, if there is one.
    """
    graph = copy.deepcopy(graph)
    meant: dict[int, Callable[..., Any]] = {}  # by the identity of what stands for it
    for node in graph.nodes:
        function = _function_of(node, forwards, every=note is not None)
        if function is not None:
            node.op, node.target = "call_function", _named(node.name)
            meant[id(node.target)] = function if note is None else _noted(function, node.name, note)
    if note is not None:
        _note_tensors(graph, note)
    code = graph.python_code("self")
    scope: dict[str, Any] = {
        name: meant.get(id(value), value) for name, value in code.globals.items()
    }
    exec(compile(code.src, f"<taiyi_fx {id(graph):#x}>", "exec"), scope)
    return scope["forward"]


def _function_of(
    node: fx.Node, forwards: Mapping[str, Callable[..., Any]], *, every: bool
) -> Callable[..., Any] | None:
    """The function that a node is a call of; None for one that can stay as it is."""
    if node.op == "call_module":
        return forwards[str(node.target)]
    if node.op == "call_function" and (every or node.target in IN_PLACE_OPERATORS):
        # Written as `a += b`, it would change what `a` stands for where that is a number.
        return cast(Callable[..., Any], node.target)
    if node.op == "call_method" and every:
        name = str(node.target)
        return lambda owner, *args, **kwargs: getattr(owner, name)(*args, **kwargs)
    return None


def _noted(function: Callable[..., Any], name: str, note: Note) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        note(name, value)
        return value

    return noted


def _note_tensors(graph: fx.Graph, note: Note) -> None:
    """Has what no call makes noted when the graph begins: inputs, parameters and buffers."""
    nodes = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
    inputs = [node for node in nodes if node.op == "placeholder"]
    for node in nodes:
        # Placeholders have to stay together.
        with graph.inserting_after(inputs[-1] if node.op == "placeholder" else node):
            graph.call_function(note, (node.name, node))


def _named(name: str) -> Callable[..., Any]:
    # torch.fx writes a torch function by its path, which for a bound method would be wrong: so it
    # is given a name among the globals, to stand for what is meant.
    def meant(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    meant.__name__ = meant.__qualname__ = name
    meant.__module__ = "taiyi_fx"
    return meant
