"""Calls of modules: inlined, or kept as calls where nothing inside them has to be seen."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.fx.graph_module import GraphModule, _WrappedCall
from torch.fx.node import map_aggregate

from taiyi_fx.passes.capture.captured import InlinedCall
from taiyi_fx.passes.capture.containers import children
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.guards import HOOKS, MISSING
from taiyi_fx.passes.capture.lookup import in_class
from taiyi_fx.passes.capture.marks import behind_marks, leave, mark_call, mark_value
from taiyi_fx.passes.capture.source import is_torchs_file
from taiyi_fx.passes.capture.values import Known, Refused, Value, argument, lifted
from taiyi_fx.passes.module_tree import has_children, modules_of
from taiyi_fx.passes.override import entry_of

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_CALLS_OF_GRAPHS = [
    code
    for code in GraphModule.recompile.__code__.co_consts
    if isinstance(code, CodeType) and code.co_name == "call_wrapped"
]
_SPELLED = (type(None), bool, int, float, complex, str)


def call_module(writer: GraphWriter, module: nn.Module, args: Any, kwargs: Any) -> Value:
    """The result of a module's call, between marks if it is a target."""
    name = writer.name_of(module)
    if name not in writer.targets.modules or writer.is_silent:
        return _called(writer, module, name, args, kwargs)
    if _holds_container((*args, *kwargs.values())):
        # After a mark it would be another container than the one that is passed in.
        raise Refused(f"passes a list or dictionary to {name!r}")
    call = writer.count_call(name)
    given = mark_call(writer.graph, argument(tuple(args)), argument(kwargs), name, call)
    writer.place()
    args, kwargs = lifted(given[0]), lifted(given[1])
    made = argument(_called(writer, module, name, args, kwargs))
    marked = mark_value(writer.graph, leave, made, name, call)
    writer.place()
    return lifted(marked)


def _called(writer: GraphWriter, module: nn.Module, name: str, args: Any, kwargs: Any) -> Value:
    if is_torch_leaf(module):
        _check_leaf(writer, module)
        if writer.holds_call(module) and not writer.is_silent:
            with writer.inside(module, writer.current):
                return enter_module(writer, module, args, kwargs)
        return _as_it_is(writer, module, args, kwargs)
    has_parts = has_children(module)
    takes_container = _holds_container((*args, *kwargs.values()))
    if has_parts or takes_container or writer.targets.functions or writer.is_silent:
        return _inlined(writer, module, name, args, kwargs)
    # It stays a call, but may run nothing that inlining would have refused.
    with writer.silent():
        enter_module(writer, module, args, kwargs)
    return _as_it_is(writer, module, args, kwargs)


def _as_it_is(writer: GraphWriter, module: nn.Module, args: Any, kwargs: Any) -> Value:
    if _holds_container((*args, *kwargs.values())):
        raise Refused(f"passes a list or dictionary to {writer.name_of(module)!r}")
    with writer.inside(module, writer.current):
        return writer.record("call_module", writer.paths[module], args, kwargs)


def _inlined(writer: GraphWriter, module: nn.Module, name: str, args: Any, kwargs: Any) -> Value:
    with writer.inside(module, name):
        value = enter_module(writer, module, args, kwargs)
    if writer.is_silent:
        return value
    if name not in writer.log.inlined:
        writer.log.inlined.append(name)
    given, made = _nodes_in((args, kwargs)), _nodes_in(value)
    if given is not None and made is not None:
        writer.log.inlined_calls.append(InlinedCall(name, given, made))
    return value


def enter_module(writer: GraphWriter, module: nn.Module, args: Any, kwargs: Any) -> Value:
    """The result of a module's forward, whose operations become part of the graph."""
    forward = plain_forward(writer, module)
    return writer.inline(forward, [Known(module), *args], kwargs)


def plain_forward(writer: GraphWriter, module: nn.Module) -> FunctionType:
    """The forward that a call of the module runs, under guards.

    Raises:
        Refused: The call does more than run that forward.
    """
    _refuse_special(module)
    _refuse_replaced_calls()
    forward = in_class(type(module), "forward")
    if not isinstance(forward, FunctionType):
        raise Refused("has no forward of its own")
    guards, kind = writer.guards, type(module)
    guards.modules[writer.names[module]] = kind
    guards.require(kind, "forward", kind.forward)
    guards.require(kind, "__call__", kind.__call__)
    guards.require(nn.Module, "__call__", nn.Module.__call__)
    guards.require(nn.Module, "_call_impl", nn.Module._call_impl)
    return forward


def _refuse_special(module: nn.Module) -> None:
    kind, own = type(module), vars(module)
    if isinstance(module, torch.jit.ScriptModule):
        raise Refused("is a script module")
    if entry_of(module) is not None:
        raise Refused("was replaced on the instance")
    if own.get("_compiled_call_impl") is not None:
        raise Refused("is compiled")
    if any(own[hooks] for hooks in HOOKS):
        raise Refused("has hooks registered on it")
    if kind.__call__ is not nn.Module.__call__ and not _is_called_as_module(kind):
        raise Refused("has a __call__ of its own")
    for name in ("__getattr__", "__getattribute__", "_call_impl", "_wrapped_call_impl"):
        if in_class(kind, name) is not in_class(nn.Module, name):
            raise Refused(f"has a {name} of its own")
    is_lazy = in_class(kind, "_infer_parameters") is not MISSING
    if kind.__module__ == "torch.nn.utils.parametrize" or is_lazy:
        raise Refused("is parametrized, or lazy")


def _refuse_replaced_calls() -> None:
    for name in ("__call__", "_call_impl"):
        code = getattr(in_class(nn.Module, name), "__code__", None)
        if code is None or not is_torchs_file(code.co_filename):
            raise Refused(f"is called by an nn.Module.{name} that is not torch's")


def _is_called_as_module(kind: type) -> bool:
    """True for a GraphModule's class, whose call only says more about what its forward raises."""
    wrapped = in_class(kind, "_wrapped_call")
    is_torchs_call = getattr(kind.__call__, "__code__", None) in _CALLS_OF_GRAPHS
    return is_torchs_call and type(wrapped) is _WrappedCall and wrapped.cls_call is None


def is_torchs(module: nn.Module) -> bool:
    """True if a module's class is one of torch's own, with its original forward."""
    kind = type(module)
    code = getattr(in_class(kind, "forward"), "__code__", None)
    is_own = kind.__module__.startswith(("torch.nn.modules.", "torch.ao.nn."))
    return is_own and code is not None and is_torchs_file(code.co_filename)


def is_torch_leaf(module: nn.Module) -> bool:
    """True if a module of torch's own stays one call in a graph."""
    return is_torchs(module) and not isinstance(module, _CONTAINERS)


def is_torch_composite(module: nn.Module) -> bool:
    """True if a module of torch's own has parts, which it calls in its own code."""
    return is_torch_leaf(module) and has_children(module)


def _check_leaf(writer: GraphWriter, module: nn.Module) -> None:
    """Puts under guards that a module of torch's own, and all its parts, run torch's code."""
    for inside in modules_of(module):
        if writer.targets.hides(inside):
            raise Refused(f"{type(inside).__name__} is torch's own and calls the target inside")
        if inside is not module and writer.names[inside] in writer.targets.modules:
            kind = type(module).__name__
            raise Refused(f"{kind} is torch's own and calls its parts itself")
        if not is_torchs(inside) or any(map(_is_users, vars(inside).values())):
            raise Refused(f"{type(inside).__name__} runs code that is not torch's")
        plain_forward(writer, inside)
        if (in_place := vars(inside).get("inplace")) is not None:
            # Passes ask for it, as readings must not move behind a change in place.
            writer.guards.require(writer.name_of(inside), "inplace", in_place)
        if inside._modules:
            children(writer, inside)


def _is_users(value: Any) -> bool:
    return isinstance(value, FunctionType) and not is_torchs_file(value.__code__.co_filename)


def _holds_container(value: Value) -> bool:
    # A part could change it, and the graph would not show that.
    if isinstance(value, tuple):
        return any(map(_holds_container, value))
    return isinstance(value.value if isinstance(value, Known) else value, (list, dict))


def _nodes_in(value: Value) -> tuple[str, ...] | None:
    """The names of the nodes that made a value; None if it may hold more than can be seen."""
    try:
        structure = argument(value)
    except Refused:
        return None
    parts: list[Any] = []
    map_aggregate(structure, parts.append)
    if not all(part is None or isinstance(part, (torch.fx.Node, *_SPELLED)) for part in parts):
        return None
    nodes = behind_marks([part for part in parts if isinstance(part, torch.fx.Node)])
    return tuple(node.name for node in nodes)
