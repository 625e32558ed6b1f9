"""Finds and replaces tensors in values of any structure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from taiyi_fx.passes.ir import Pick

_DISPATCH = "__torch_dispatch__"
_NO_DISPATCH = getattr(Tensor, _DISPATCH)


def is_dressed(x: Tensor) -> bool:
    """True for a subclass of Tensor without ``__torch_dispatch__``, such as MONAI's MetaTensor."""
    kind = type(x)
    is_torchs = kind is Tensor or kind is Parameter
    return not is_torchs and getattr(kind, _DISPATCH) is _NO_DISPATCH


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
    if isinstance(pick, tuple) and not isinstance(value, Call):  # a call's only argument
        pick = None if pick[0] == 0 else pick
    if isinstance(value, Tensor):
        return value if pick in (None, 0) else None
    if pick is not None:
        value = value.pick(pick) if isinstance(value, Call) else dict(_parts(value)).get(pick)
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
    for key, part in list(_parts(value)):
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
    return _with_part(value, pick, replace_tensor(dict(_parts(value))[pick], old, new))


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
    if isinstance(value, Call):
        return any(stands_in(part, tensor) for part in (*value.args, *value.kwargs.values()))
    if isinstance(value, tuple):
        return any(stands_in(part, tensor) for part in value)
    return value is tensor


# Tested first: the compiler of torch 2.6 cannot test if one of these is a dataclass.
_ATOMS = (Tensor, type(None), bool, int, float, str)


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, _ATOMS):
        return ()
    if isinstance(value, (tuple, list)):
        return enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, Call):  # as a dataclass, were it not for the compiler of torch 2.6
        return (("args", value.args), ("kwargs", value.kwargs))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    return ()


def tensors_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """All tensors in a value, in order; also in attributes of objects, such as lists of images."""
    if isinstance(value, Tensor):
        yield value
        return
    parts = _parts(value)
    if depth < _OBJECT_DEPTH and _is_object(value):
        parts, depth = vars(value).items(), depth + 1
    for _, part in parts:
        yield from tensors_in(part, depth)


_OBJECT_DEPTH = 2


def _is_object(value: Any) -> bool:
    """True if a value is an object of a class whose structure is not known."""
    if isinstance(value, (nn.Module, type, tuple, list, Mapping, Call, *_ATOMS)):
        return False
    if dataclasses.is_dataclass(value) or type(value).__module__ in ("builtins", "torch"):
        return False
    return isinstance(getattr(value, "__dict__", None), dict)


def slots_of(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Names and values that a module keeps in ``__slots__`` of its class."""
    for kind in type(module).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(module, name):
                yield name, getattr(module, name)


def is_computed(module: nn.Module, name: str) -> bool:
    """True if a parametrization computes a module's attribute each time it is read."""
    return name in getattr(module, "parametrizations", ())


def tensor_named(module: nn.Module, name: str) -> Any:
    """A module's attribute, or None; a parametrization is not evaluated.

    Spectral normalisation, for one, changes its state in training each time it is read.
    """
    if not is_computed(module, name):
        return getattr(module, name, None)
    parts = [*cast(nn.ModuleDict, module.parametrizations)[name].modules()]
    modes = [part.training for part in parts]
    try:
        for part in parts:
            vars(part)["training"] = False
        return getattr(module, name)
    finally:
        for part, mode in zip(parts, modes, strict=True):
            vars(part)["training"] = mode
