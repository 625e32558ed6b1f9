"""Graph to Python function, with every module bound once instead of looked up at each call."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

from torch import fx

from taiyi_fx.passes.capture.operators import IN_PLACE_OPERATORS
from taiyi_fx.passes.rewrite.model_lines import lines_by_number

OWN = ""
"""The name, in a graph of a module's own call, of the module itself.

The call has two arguments, the positional ones and the keywords; in place of its forward there is a
function without arguments that returns the present forward.
"""

Function = Callable[..., Any]
Wrap = Callable[[str, Function], Function]


_SHOWN: dict[str, Any] = {}
"""The warnings that Python has shown as of an emitted function, by which it shows none twice.

A forward may place one in its caller (`stacklevel`), which is one line of torch for all modules. So
all emitted functions are one place, too.
"""


def emit(graph: fx.Graph, forwards: Mapping[str, Function], wrap: Wrap | None = None) -> Function:
    """A function of the root and the graph's inputs that runs the graph.

    A traced graph module spends 7 % of a thin MLP's step on ``getattr(self.net, "0")`` and in
    ``nn.Module.__call__``. Here a module's call is a call of its forward. That is the same only
    while the module has no hooks: the caller of the function has to make sure of that.

    Args:
        graph: The graph; left as it is.
        forwards: The forward of each module that the graph calls, by name.
        wrap: If given, takes each node's name and its function, and returns the one to call in its
            place. For inputs, parameters, buffers and the output, the function is the identity.
    """
    graph = copy.deepcopy(graph)
    meant: dict[int, Function] = {}  # by the identity of its stand-in
    stand_ins: dict[int, Function] = {}  # by the function's, of which the compiler guards each name
    for node in graph.nodes:
        function = _function_of(node, forwards, every=wrap is not None)
        if function is not None:
            name = _OWN_NAME if node.target == OWN else node.name
            function = function if wrap is None else wrap(node.name, function)
            stand_in = stand_ins.setdefault(id(function), _named(name))
            node.op, node.target = "call_function", stand_in
            meant[id(stand_in)] = function
    if wrap is not None:
        _wrap_others(graph, wrap)
    code = graph.python_code("self")
    source = _OWN_CALL.sub(r"\1()(*\2, **\3)", code.src)
    scope: dict[str, Any] = {
        name: meant.get(id(value), value) for name, value in code.globals.items()
    }
    scope |= {"__warningregistry__": _SHOWN, **lines_by_number(graph, source)}
    exec(compile(source, f"<taiyi_fx {id(graph):#x}>", "exec"), scope)
    return scope["forward"]


def with_parameters_of(function: Function, forward: FunctionType) -> Function:
    """An emitted function that takes, and refuses, the arguments that a forward does.

    The inputs of a graph know neither keyword-only parameters nor positional-only ones.
    """
    assert isinstance(function, FunctionType)
    names = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
    code = function.__code__.replace(**{name: getattr(forward.__code__, name) for name in names})
    made = FunctionType(code, function.__globals__, forward.__name__, forward.__defaults__)
    made.__kwdefaults__ = forward.__kwdefaults__
    made.__qualname__ = forward.__qualname__  # which Python's errors name
    return made


def _function_of(
    node: fx.Node, forwards: Mapping[str, Function], *, every: bool
) -> Function | None:
    """The function that a node is a call of; None for one that can stay as it is."""
    if node.op == "call_module":
        return forwards[str(node.target)]
    if node.op == "call_function" and (every or _is_bound(node.target)):
        return cast(Function, node.target)
    if node.op == "call_method" and every:
        name = str(node.target)
        return lambda owner, /, *args, **kwargs: getattr(owner, name)(*args, **kwargs)
    return None


def _is_bound(target: Any) -> bool:
    """True if code has to call this very object, not the one that has its name at run time."""
    if getattr(target, "__module__", None) == "_operator":
        # Written as `a += b`, it would change what `a` stands for where that is a number.
        return target in IN_PLACE_OPERATORS
    return isinstance(target, (FunctionType, BuiltinFunctionType)) and target is not getattr


def _wrap_others(graph: fx.Graph, wrap: Wrap) -> None:
    inputs = graph.find_nodes(op="placeholder")
    for node in [*inputs, *graph.find_nodes(op="get_attr")]:
        # Placeholders have to stay together.
        with graph.inserting_after(inputs[-1] if node.op == "placeholder" else node):
            graph.call_function(wrap(node.name, _same), (node,))
    (output,) = graph.find_nodes(op="output")
    with graph.inserting_before(output):
        graph.call_function(wrap(output.name, _same), (output.args[0],))


_OWN_NAME = "own_forward"
_OWN_CALL = re.compile(rf"\b(\w*_{_OWN_NAME})\((\w+), (\w+)\)")


def _same(value: Any) -> Any:
    return value


def _named(name: str) -> Function:
    # torch.fx writes a torch function by its path, which for a bound method would be wrong: so it
    # gets a stand-in with a name among the globals.
    def meant(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    meant.__name__ = meant.__qualname__ = name
    meant.__module__ = "taiyi_fx"
    return meant
