"""Finds and replaces tensors in values of any structure."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, UserDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.utils.parametrize import ParametrizationList

from taiyi_fx.passes.ir import Pick
from taiyi_fx.passes.module_tree import buffers_of, parameters_of

_DISPATCH = "__torch_dispatch__"
_NO_DISPATCH = getattr(Tensor, _DISPATCH)


def is_dressed(x: Tensor) -> bool:
    """True for a subclass of Tensor without ``__torch_dispatch__``, such as MONAI's MetaTensor."""
    kind = type(x)
    is_torchs = kind is Tensor or kind is Parameter
    return not is_torchs and getattr(kind, _DISPATCH) is _NO_DISPATCH


def unseen_by_classes(*tensors: Tensor) -> AbstractContextManager[Any]:
    """In the body no class of these tensors is shown an operation by ``__torch_function__``."""
    is_any = any(map(is_dressed, tensors))
    return torch._C.DisableTorchFunctionSubclass() if is_any else nullcontext()


def undressed(x: Tensor) -> Tensor:
    """The plain tensor that such a tensor is a view of, if it is one of all of it; else itself.

    Its node of autograd's graph stays the same when the other is changed in place.
    """
    with torch._C.DisableTorchFunctionSubclass():
        base = x._base
        is_all = base is not None and base.shape == x.shape and base.stride() == x.stride()
    return base if base is not None and is_all else x


def alias_of(x: Tensor) -> Tensor:
    """A view of all of a tensor, with the same strides: a change of either in place reaches both.

    ``view_as`` would give axes of size 1 other strides, and so a convolution another memory format.
    """
    if is_dressed(x):
        with torch._C.DisableTorchFunctionSubclass():  # its class may override indexing
            alias = x[...].as_subclass(type(x))
        vars(alias).update(vars(x))
        return alias
    return x.view_as(x) if x.is_nested else x[...]  # jagged tensors have no such index


def find_tensor(value: Any, pick: Pick) -> Tensor | None:
    """The tensor picked from a value: the first one for None, else by position or key."""
    kind = type(value)
    if isinstance(pick, tuple) and kind is not Call:  # a call's only argument
        pick = None if pick[0] == 0 else pick
    if issubclass(kind, Tensor):
        return value if pick in (None, 0) else None
    if pick is not None:
        value = value.pick(pick) if kind is Call else dict(parts_of(value)).get(pick)
    for tensor in tensors_in(value):  # the compiler of torch 2.6 takes no `next` with a default
        return tensor
    return None


@dataclasses.dataclass
class Call:
    """The arguments of a call, as a value that a probe can look into.

    Attributes:
        args: The positional ones.
        kwargs: The keywords.
        function: The name of the function that is called; empty for a module.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: str = ""

    def pick(self, pick: Pick) -> Any:
        """The argument of a name, or otherwise at a position; None if the call has neither."""
        position, name = pick if isinstance(pick, tuple) else (None, pick)
        if name in self.kwargs:
            return self.kwargs[str(name)]
        return self.args[position] if position is not None and position < len(self.args) else None

    def with_picked(self, pick: Pick, part: Any) -> Call:
        """A copy with another argument at the pick."""
        position, name = pick if isinstance(pick, tuple) else (None, pick)
        if name in self.kwargs:
            return Call(self.args, {**self.kwargs, str(name): part}, self.function)
        args = tuple(part if i == position else a for i, a in enumerate(self.args))
        return Call(args, self.kwargs, self.function)


def replace_tensor(value: Any, old: Tensor, new: Tensor) -> Any:
    """The same structure, with ``old`` replaced by identity wherever it occurs.

    Everywhere, because a module may ask whether two of its inputs are one object, as attention
    does of query, key and value.
    """
    return _replaced(value, old, new)[0]


def _replaced(value: Any, old: Tensor, new: Tensor) -> tuple[Any, bool]:
    """The structure, and True if it changed: compiled code cannot compare two tuples for that."""
    if value is old:
        return new, True
    is_another = False
    for key, part in list(parts_of(value)):
        replaced, differs = _replaced(part, old, new)
        if differs:
            value, is_another = _with_part(value, key, replaced), True
    return value, is_another


def replace_picked(value: Any, pick: Pick, old: Tensor, new: Tensor) -> Any:
    """The same structure with ``old`` replaced where it was picked.

    Without a pick, the first tensor is replaced everywhere.
    """
    if isinstance(value, Call) and pick is not None:
        return value.with_picked(pick, replace_tensor(value.pick(pick), old, new))
    if value is old or pick is None or isinstance(pick, tuple):
        return replace_tensor(value, old, new)
    return _with_part(value, pick, replace_tensor(dict(parts_of(value))[pick], old, new))


def _with_part(value: Any, key: Any, part: Any) -> Any:
    if isinstance(value, tuple):
        items = [part if i == key else item for i, item in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        # torch.return_types are built from one sequence, as plain tuples are.
        return type(value)(items)
    # Compiled code cannot copy these three by copy.copy.
    if isinstance(value, Call):
        args, kwargs = (part, value.kwargs) if key == "args" else (value.args, part)
        return Call(args, kwargs, value.function)
    plain = type(value) if type(value) in (list, dict) else copy.copy
    changed = plain(value)
    if isinstance(changed, (list, MutableMapping)):
        changed[key] = part
    else:
        object.__setattr__(changed, key, part)
    return changed


def stands_in(value: Any, tensor: Tensor) -> bool:
    """True if a tensor can be replaced without changing an object that others may hold."""
    if type(value) is Call:
        return any(stands_in(part, tensor) for part in (*value.args, *value.kwargs.values()))
    if issubclass(type(value), tuple):
        return any(stands_in(part, tensor) for _, part in parts_of(value))
    return value is tensor


# Tested first: the compiler of torch 2.6 cannot test if one of these is a dataclass.
_ATOMS = (Tensor, type(None), bool, int, float, str)


def parts_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """The parts of a value with their keys, read without running any code of its class.

    A class may count how often it is read, fill what was not asked for yet, or refuse: so items are
    those that the builtin type keeps, and fields are those that are set. For the same reason the
    type is asked, as `isinstance` may read an attribute of the value.
    """
    kind = type(value)
    if issubclass(kind, _ATOMS):
        return ()
    if issubclass(kind, (tuple, list)):
        return enumerate(_items(value, tuple if issubclass(kind, tuple) else list))
    if issubclass(kind, Mapping):
        return _entries(value)
    if kind is Call:  # as a dataclass, were it not for the compiler of torch 2.6
        return (("args", value.args), ("kwargs", value.kwargs))
    if not issubclass(kind, type) and dataclasses.is_dataclass(kind):
        return _fields(value)
    return ()


def _items(value: Any, base: Any) -> Iterable[Any]:
    is_plain = type(value) is base or torch.compiler.is_compiling()
    return value if is_plain else base.__iter__(value)


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    kind = type(value)
    if kind is dict or torch.compiler.is_compiling():
        return value.items()
    if issubclass(kind, dict):
        base: Any = OrderedDict if issubclass(kind, OrderedDict) else dict
        return base.items(value)
    # Others keep their items in a dictionary, as `UserDict` does, and may have more than that one.
    kept = attributes_of(value)
    held = [kept.get("data")] if issubclass(kind, UserDict) else kept.values()
    return [entry for part in held if issubclass(type(part), dict) for entry in _entries(part)]


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(type(value))]
    if torch.compiler.is_compiling():
        return ((name, getattr(value, name)) for name in names)
    attributes = {**attributes_of(value), **dict(slots_of(value))}
    return ((name, attributes[name]) for name in names if name in attributes)


_BUILTIN = (GetSetDescriptorType, MemberDescriptorType)
"""The kinds of attributes of a class that are read without running code of Python."""


def attributes_of(value: Any) -> dict[str, Any]:
    """The ``__dict__`` of an object; empty if it has none, or one that its class computes."""
    bases = type(value).__mro__
    held = next((vars(c)["__dict__"] for c in bases if "__dict__" in vars(c)), None)
    return held.__get__(value) if isinstance(held, _BUILTIN) else {}


def attribute_of(value: Any, name: str) -> Any:
    """An attribute of an object, or None: no property, ``__getattr__`` or other code is run."""
    attributes = attributes_of(value)
    found = attributes[name] if name in attributes else _of_class(value, name)
    return found if name in attributes or not hasattr(type(found), "__get__") else None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in a value, in order; also in attributes of objects, such as lists of images.

    Nothing is walked through twice, so that parts may lead back to what they are parts of.
    """
    if issubclass(type(value), Tensor):
        yield value
        return
    waiting: list[tuple[Any, int]] = [(value, 0)]
    met: set[int] = set()
    while waiting:
        value, depth = waiting.pop()
        if issubclass(type(value), Tensor):
            yield value
            continue
        if issubclass(type(value), _ATOMS):
            continue
        if not torch.compiler.is_compiling():  # which knows no identity of what it makes
            if id(value) in met:
                continue
            met.add(id(value))
        parts = parts_of(value)
        if depth < _OBJECT_DEPTH and _is_object(value):
            parts, depth = attributes_of(value).items(), depth + 1
        waiting += [(part, depth) for _, part in [*parts][::-1]]


_OBJECT_DEPTH = 2


def _is_object(value: Any) -> bool:
    """True if a value is an object of a class whose structure is not known."""
    kind = type(value)
    if issubclass(kind, (nn.Module, type, tuple, list, Mapping, Call, *_ATOMS)):
        return False
    return not (dataclasses.is_dataclass(kind) or kind.__module__ in ("builtins", "torch"))


def slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values that an object keeps in ``__slots__`` of its class."""
    for name, slot in slots_of_class(type(value)).items():
        with suppress(AttributeError):  # it may be empty
            yield name, slot.__get__(value)


def slots_of_class(kind: type) -> dict[str, MemberDescriptorType]:
    """The attributes that instances of a class keep in ``__slots__``; private names as mangled."""
    found: dict[str, MemberDescriptorType] = {}
    # Types of C have such attributes without `__slots__`, mostly not to be written.
    for base in (c for c in reversed(kind.__mro__) if "__slots__" in vars(c)):
        own = vars(base).items()
        found |= {name: slot for name, slot in own if isinstance(slot, MemberDescriptorType)}
    return found


def is_computed(module: nn.Module, name: str) -> bool:
    """True if a parametrization computes a module's attribute each time it is read."""
    return _parametrization(module, name) is not None


def computed_by(module: nn.Module, name: str) -> str:
    """The class of the user's own that takes part in a computed attribute; empty if none does.

    A parametrization with hooks is one, as its hooks may be anything.
    """
    parts = (_parametrization(module, name) or nn.ModuleList())._modules.values()
    own = (type(part).__name__ for part in parts if part is not None and not _is_torchs_own(part))
    return next(own, "")


def computed_text(name: str, own_code: str) -> str:
    """The reason why such an attribute is not read."""
    return (
        f"has a {name} that {own_code} computes, which is not run to read it: ask for what it is "
        f'made of, as by "<module>.parametrizations.{name}": [[..., ..., {{"param": "original"}}]]'
    )


def parts_of_computed(module: nn.Module, name: str) -> list[Tensor]:
    """The parameters and buffers that an attribute is computed of."""
    found = _parametrization(module, name)
    return [] if found is None else [*parameters_of(found), *buffers_of(found)]


def tensor_named(module: nn.Module, name: str) -> Any:
    """A module's tensor, or None: no property, ``__getattr__`` or other code of the model's is run.

    A parametrization of torch's own is computed as in evaluation: spectral normalisation, for one,
    changes its state in training each time it is read. One of the user's own is None.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return getattr(module, name, None)
    if is_computed(module, name):
        return None if computed_by(module, name) else _computed(module, name)
    if isinstance(_of_class(module, name), property):
        return None
    attributes = vars(module)
    for held in (attributes, attributes["_parameters"], attributes["_buffers"]):
        if name in held:
            return held[name]
    return _of_class(module, name)


def _of_class(value: Any, name: str) -> Any:
    return next((vars(c)[name] for c in type(value).__mro__ if name in vars(c)), None)


def _parametrization(module: nn.Module, name: str) -> ParametrizationList | None:
    if isinstance(module, torch.jit.ScriptModule):
        return None
    found = vars(module).get("_modules", {}).get("parametrizations")
    held = found._modules.get(name) if isinstance(found, nn.ModuleDict) else None
    return held if isinstance(held, ParametrizationList) else None


def _is_torchs_own(part: nn.Module) -> bool:
    is_own = type(part).__module__ == "torch.nn.utils.parametrizations"
    return is_own and not (part._forward_hooks or part._forward_pre_hooks)


def _computed(module: nn.Module, name: str) -> Tensor:
    """The attribute as parametrizations of torch's own compute it; no hook runs, no cache fills."""
    chain: Any = _parametrization(module, name)
    count = None if chain.is_tensor else chain.ntensors
    names = ["original"] if count is None else [f"original{i}" for i in range(count)]
    values = [chain._parameters.get(n, chain._buffers.get(n)) for n in names]
    for part in chain._modules.values():
        mode = part.training
        try:
            vars(part)["training"] = False
            values = [type(part).forward(part, *values)]
        finally:
            vars(part)["training"] = mode
    return values[0]
