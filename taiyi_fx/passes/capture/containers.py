"""The contents of lists, dictionaries and containers of modules, where they are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.guards import TENSOR
from taiyi_fx.passes.capture.lookup import in_class
from taiyi_fx.passes.capture.values import Flow, Known, Method, Refused, Value, known, known_simple

_LISTS = (nn.ModuleList, nn.Sequential)
_ITERATORS = {id(vars(kind)["__iter__"]) for kind in _LISTS}


def items(writer: GraphWriter, value: Value) -> Iterable[Value]:
    """The values that a loop over a value goes through; a list that a forward made may grow."""
    if isinstance(value, Flow):
        raise Refused("iterates over a tensor, or over something of an unknown length")
    if isinstance(value, dict):
        return [Known(key) for key in value]
    if isinstance(value, (list, tuple, Lazy)):
        return value
    found = known(value, "iterates over")
    if isinstance(found, nn.Module):
        return _of_module(writer, found)
    if isinstance(found, (list, tuple, dict, range, str)):
        return [Known(item) for item in found]
    raise Refused(f"iterates over a {type(found).__name__}")


class Lazy:
    """The values of a generator expression, each computed when it is needed."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values = values

    def __iter__(self) -> Any:
        return iter(self._values)


def children(writer: GraphWriter, module: nn.Module) -> dict[str, Value]:
    """All parts of a module by their keys, under a guard."""
    own = writer.name_of(module)
    writer.guards.modules[own] = type(module)
    names = {k: None if m is None else writer.name_of(m) for k, m in module._modules.items()}
    writer.guards.children[own] = names
    return {key: Known(child) for key, child in module._modules.items()}


def _of_module(writer: GraphWriter, module: nn.Module) -> Iterable[Value]:
    kind = type(module)
    iterate = in_class(kind, "__iter__")
    writer.guards.require(kind, "__iter__", iterate)
    if id(iterate) in _ITERATORS:
        return list(children(writer, module).values())
    if iterate is vars(nn.ModuleDict)["__iter__"]:
        return [Known(key) for key in children(writer, module)]
    if iterate is vars(nn.ParameterList)["__iter__"]:
        return [parameter(writer, module, str(i)) for i in range(_size(writer, module))]
    raise Refused(f"iterates over a {kind.__name__}")


def _size(writer: GraphWriter, module: nn.Module) -> int:
    size = vars(module)["_size"]
    writer.guards.require(writer.name_of(module), "_size", size)
    return size


def parameter(writer: GraphWriter, module: nn.Module, key: str) -> Value:
    """A tensor that a list or dictionary of parameters holds."""
    own = writer.name_of(module)
    writer.guards.modules[own] = type(module)
    if module._parameters.get(key) is None:
        raise Refused(f"reads the parameter {key!r}, which does not exist")
    writer.guards.require(own, key, TENSOR, "_parameters")
    return writer.read(module, key)


def length(writer: GraphWriter, value: Value) -> int:
    """The length of a value."""
    if isinstance(value, Known) and isinstance(value.value, nn.Module):
        kind = type(value.value)
        size = in_class(kind, "__len__")
        writer.guards.require(kind, "__len__", size)
        if size in (vars(k)["__len__"] for k in (*_LISTS, nn.ModuleDict)):
            return len(children(writer, value.value))
        if size is vars(nn.ParameterList)["__len__"]:
            return _size(writer, value.value)
        raise Refused(f"takes the length of a {kind.__name__}")
    if isinstance(value, (list, tuple, dict)):
        return len(value)
    return len(known_simple(value, "takes the length of"))


def item(writer: GraphWriter, owner: Value, key: Value) -> Value:
    """An item of an object that is known, or of one that a forward made."""
    if isinstance(owner, (list, tuple, dict)):
        return owner[known_simple(key, "indexes by")]
    found = known(owner, "takes an item of")
    index = known_simple(key, "indexes by")
    if isinstance(found, nn.Module):
        return _item_of_module(writer, found, index)
    if isinstance(found, (list, tuple, dict, str, range)):
        return Known(found[index])
    raise Refused(f"takes an item of a {type(found).__name__}")


def _item_of_module(writer: GraphWriter, module: nn.Module, index: Any) -> Value:
    kind = type(module)
    take = in_class(kind, "__getitem__")
    writer.guards.require(kind, "__getitem__", take)
    if take in (vars(k)["__getitem__"] for k in _LISTS) and type(index) is int:
        return list(children(writer, module).values())[index]
    if take is vars(nn.ModuleList)["__getitem__"] and type(index) is slice:
        return list(children(writer, module).values())[index]
    if take is vars(nn.ModuleDict)["__getitem__"]:
        return children(writer, module)[index]
    if take is vars(nn.ParameterList)["__getitem__"] and type(index) is int:
        return parameter(writer, module, str(range(_size(writer, module))[index]))
    if take is vars(nn.ParameterDict)["__getitem__"] and type(index) is str:
        return parameter(writer, module, index)
    raise Refused(f"takes an item of a {kind.__name__}")


def call_of_children(writer: GraphWriter, method: Method) -> list[Value] | None:
    """The parts of a module that a method of torch's own goes through; None for any other."""
    module = method.owner.value
    if id(method.function) not in _GOES_THROUGH:
        return None
    found, name = children(writer, module), method.name
    if name in ("children", "named_children"):  # these leave out what has come before, and None
        found = {key: Known(child) for key, child in nn.Module.named_children(module)}
    if name == "keys":
        return [Known(key) for key in found]
    if name in ("values", "children"):
        return list(found.values())
    return [(Known(key), child) for key, child in found.items()]


_GOES_THROUGH = {
    id(vars(kind)[name])
    for kind, names in (
        (nn.Module, ("children", "named_children")),
        (nn.ModuleDict, ("keys", "values", "items")),
    )
    for name in names
}


def call_of_container(writer: GraphWriter, method: Method, args: Any) -> Value:
    """The result of a method of a list, dictionary or text."""
    owner, name = method.owner, method.name
    if isinstance(owner, Known):
        owner = owner.value
        if name == "copy" and type(owner) is list:
            return [Known(value) for value in owner]
        if name in _OF_PLAIN:
            given = [known_simple(a, f"calls `{name}` of") for a in args]
            return Known(getattr(owner, name)(*given))
    elif name in _OF_MADE.get(type(owner), ()):
        if name == "extend":
            args = [list(items(writer, args[0]))]
        elif name in ("pop", "get") and args:
            args = [known_simple(args[0], "looks up"), *args[1:]]
        found = getattr(owner, name)(*args)
        return Known(None) if found is None else found
    raise Refused(f"calls `{name}` of a {type(owner).__name__}")


_OF_MADE = {list: ("append", "extend", "pop", "reverse", "copy", "clear"), dict: ("get", "pop")}
_OF_PLAIN = frozenset(
    "startswith endswith format lower upper split join replace strip count index numel".split()
)
