"""Resolves names and attributes by a path of guards, without running any code of the model."""

# How a look-up can be safe without running anything: `getattr(module, name)` may run a property, a
# descriptor or a `__getattr__`, so it is never called here on an object of the model. Instead each
# step that Python and torch would take is taken by hand: the class and its bases, the instance's
# `__dict__`, then `_parameters`, `_buffers` and `_modules`. What is found there, and also what is
# *not* found in an earlier place, becomes a guard: a name that comes later in an earlier place
# would hide this one. Only types that cannot override attribute access are read further. A tensor
# is never a constant of the graph: it becomes a node that reads it anew at each run, and the guard
# requires only that a tensor is there.
from __future__ import annotations

import builtins
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.guards import MISSING, TENSOR, Submodule
from taiyi_fx.passes.capture.values import (
    FIXED,
    Flow,
    Known,
    Method,
    Refused,
    Value,
    is_plain_container,
    is_simple,
)

FLOWING_ATTRIBUTES = frozenset("shape dtype device ndim T mT H mH real imag layout".split())
_DENIED = """
    apply_ backward data_ptr item map_ map2_ numpy register_hook rename_ rename refine_names names
    register_post_accumulate_grad_hook reinforce requires_grad_ resize resize_ resize_as resize_as_
    retain_grad set_ share_memory share_memory_ storage storage_type tolist unflatten_names
    untyped_storage detach_ align_to align_as coalesce module_load as_subclass equal allclose
    record_stream sparse_resize_ sparse_resize_and_clear_ new storage_offset pin_memory
""".split()
TENSOR_METHODS = frozenset(
    name
    for name in dir(torch.Tensor)
    if name[0] != "_" and not name.startswith("is_") and callable(getattr(torch.Tensor, name))
) - frozenset(_DENIED)


def variable(writer: GraphWriter, function: FunctionType, name: str) -> Value:
    """The value of a name in a function that is not one of its local variables."""
    code = function.__code__
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        return _kept(writer, cell, "cell_contents", f"the variable {name!r} that it closes over")
    if name in function.__globals__:
        return _kept(writer, function.__globals__, name, f"the global variable {name!r}")
    writer.guards.require(function.__globals__, name, MISSING)
    if name not in vars(builtins):
        raise Refused(f"reads {name!r}, which does not exist")
    return _kept(writer, vars(builtins), name, name)


def attribute(writer: GraphWriter, owner: Value, name: str, text: str) -> Value:
    """The value of an attribute.

    Args:
        writer: Takes the guards and reads.
        owner: The value.
        name: The attribute.
        text: The expression, as the forward has it.
    """
    if isinstance(owner, Flow):
        return _of_flow(writer, owner, name, text)
    if name.startswith("__") and name not in _NAMES:
        raise Refused(f"reads `{text}`")
    if not isinstance(owner, Known):
        return _of_made(owner, name, text)
    found = owner.value
    if name == "__class__" and isinstance(found, (nn.Module, FunctionType, type)):
        return _class_of(writer, found)
    if isinstance(found, nn.Module):
        return of_module(writer, found, name, text)
    if type(found) is ModuleType:
        return _kept(writer, found, name, f"`{text}`")
    if isinstance(found, type) and name not in _NAMES:
        return _of_class(writer, found, name, text)
    if isinstance(found, (FunctionType, type)) and name in _NAMES:
        return _kept(writer, found, name, f"`{text}`")
    if is_simple(found) or is_plain_container(found):
        return Method(owner, name)
    raise Refused(f"reads `{text}`, of an object that is not plain")


_NAMES = ("__class__", "__name__", "__module__", "__qualname__")


def _of_flow(writer: GraphWriter, owner: Flow, name: str, text: str) -> Value:
    if name in FLOWING_ATTRIBUTES:
        return writer.record("call_function", getattr, (owner, Known(name)))
    if name in TENSOR_METHODS:
        return Method(owner, name)
    raise Refused(f"reads `{text}` of a value that flows in")


def _of_made(owner: Value, name: str, text: str) -> Value:
    if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        return getattr(owner, name)
    if isinstance(owner, (list, tuple, dict)) and not name.startswith("_"):
        return Method(owner, name)
    raise Refused(f"reads `{text}`")


def _class_of(writer: GraphWriter, found: Any) -> Value:
    if isinstance(found, nn.Module):
        writer.guards.modules[writer.name_of(found)] = type(found)
    return Known(type(found))


def _kept(writer: GraphWriter, owner: Any, name: str, what: str) -> Value:
    """An entry of a dictionary, a Python module, a function or a cell, under a guard."""
    if isinstance(owner, dict):
        value = owner[name]
    else:
        space = vars(owner) if isinstance(owner, ModuleType) else None
        value = getattr(owner, name, MISSING) if space is None else space.get(name, MISSING)
    if value is MISSING:
        raise Refused(f"reads {what}, which does not exist")
    return found(writer, owner, name, value, what)


def found(
    writer: GraphWriter, owner: Any, name: str, value: Any, what: str, space: str = ""
) -> Value:
    """The value of an object that an owner holds by a name, under a guard."""
    if issubclass(type(value), nn.Module):
        expected: Any = Submodule(writer.name_of(value))
    elif is_plain_container(value):
        expected = value = type(value)(value)
    elif is_simple(value) or type(value) is ModuleType or issubclass(type(value), FIXED):
        expected = value
    elif issubclass(type(value), torch.Tensor):
        raise Refused(f"reads {what}, a tensor: pass it in, or register it as a buffer")
    else:
        raise Refused(f"reads {what}, a {type(value).__module__}.{type(value).__name__}")
    writer.guards.require(owner, name, expected, space)
    return Known(value)


def in_class(kind: type, name: str) -> Any:
    """The raw entry of a class or its bases by a name, or `MISSING`."""
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return MISSING


def of_class(kind: type, name: str, text: str) -> Any:
    """The value that a class gives by a name, or `MISSING`.

    Raises:
        Refused: The class, or what it holds, runs code of its own to answer.
    """
    value, meta = in_class(kind, name), type(kind)
    is_asked = any(in_class(meta, each) is not MISSING for each in ("__getattr__", name))
    if meta is not type and (is_asked or meta.__getattribute__ is not type.__getattribute__):
        raise Refused(f"reads `{text}`, of a class that answers in a way of its own")
    if isinstance(value, classmethod):
        raise Refused(f"reads `{text}`, of a class")
    if isinstance(value, staticmethod):
        return value.__func__
    if hasattr(type(value), "__get__") and not isinstance(value, (property, *FIXED)):
        raise Refused(f"reads `{text}`, which answers in a way of its own")
    return value


def _of_class(writer: GraphWriter, kind: type, name: str, text: str) -> Value:
    value = of_class(kind, name, text)
    if value is MISSING:
        raise Refused(f"reads `{text}`, which does not exist")
    if isinstance(value, property) or hasattr(type, name):
        raise Refused(f"reads `{text}`, of a class")
    return found(writer, kind, name, value, f"`{text}`")


def of_module(writer: GraphWriter, module: nn.Module, name: str, text: str) -> Value:
    """The value of a module's attribute, looked for in the order of Python and torch."""
    guards, own, kind = writer.guards, writer.name_of(module), type(module)
    guards.modules[own] = kind
    shared = of_class(kind, name, text)
    if isinstance(shared, property):
        return _of_property(writer, module, name, shared)
    if hasattr(type(shared), "__set__"):
        raise Refused(f"reads `{text}`, which answers in a way of its own")
    if name in vars(module):
        guards.require(kind, name, shared)
        if name == "training":
            guards.require(own, name, writer.training)
            return Known(writer.training)
        return _held(writer, module, name, vars(module)[name], text, "")
    guards.require(own, name, MISSING)
    if shared is not MISSING:
        return _of_kind(writer, module, name, shared, text)
    guards.require(kind, name, MISSING)
    for space in ("_parameters", "_buffers", "_modules"):
        if name in vars(module)[space]:
            return _held(writer, module, name, vars(module)[space][name], text, space)
    raise Refused(f"reads `{text}`, which does not exist")


def _held(
    writer: GraphWriter, module: nn.Module, name: str, value: Any, text: str, space: str
) -> Value:
    own = writer.names[module]
    if space == "" and name in _OWN:
        raise Refused(f"reads `{text}`, torch's own")
    if issubclass(type(value), torch.Tensor):
        writer.guards.require(own, name, TENSOR, space)
        return writer.read(module, name)
    return found(writer, own, name, value, f"`{text}`", space)


_OWN = frozenset(vars(nn.Module())) - {"training"}


def _of_property(writer: GraphWriter, module: nn.Module, name: str, made: property) -> Value:
    writer.guards.require(type(module), name, made)
    if not isinstance(made.fget, FunctionType):
        raise Refused(f"reads the property {name!r}")
    return writer.inline(made.fget, [Known(module)], {})


def _of_kind(writer: GraphWriter, module: nn.Module, name: str, shared: Any, text: str) -> Value:
    kind = type(module)
    is_static = isinstance(in_class(kind, name), staticmethod)
    if isinstance(shared, FunctionType) and not is_static:
        writer.guards.require(kind, name, shared)
        return Method(Known(module), name, shared)
    if hasattr(type(shared), "__get__") and not is_static:
        raise Refused(f"reads `{text}`, of a class")
    return found(writer, kind, name, shared, f"`{text}`")
