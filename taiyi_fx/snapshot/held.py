"""The state of Python objects as keys and values: read, and written back in place."""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from taiyi_fx.passes.structure import slots_of
from taiyi_fx.snapshot.bitwise import SCALARS

Entries = dict[Any, Any]
"""An object's content: a list's by position, a module's by name."""

_STATELESS = (*SCALARS, type, types.ModuleType, torch.dtype, torch.device, torch.Size)


@dataclass(frozen=True)
class Access:
    """A way to read and to write one kind of state of an object.

    Attributes:
        read: Makes a shallow copy of its content.
        write: Puts such a copy back, into the same object.
        step: Makes the part of an entry's path after that of the object.
    """

    read: Callable[[Any], Entries]
    write: Callable[[Any, Entries], None]
    step: str = "[{}]"


def accesses(value: Any) -> list[Access]:
    """All accesses to an object's state; none if it has none, or is not looked into.

    Looked into are modules, lists, dictionaries, sets, deques, numpy arrays, random generators,
    partials, methods, closures, and objects of classes written in Python; not those of Python's own
    library, such as locks and queues, which may belong to another thread.
    """
    if isinstance(value, nn.Module):
        return [_MODULE, *_slots(value)]
    if isinstance(value, (*_STATELESS, Tensor)) or _home(value) == "taiyi_fx":
        return []
    for kind, access in _BY_KIND.items():
        if isinstance(value, kind):
            return [access, *([_OBJECT] if vars_of(value) else [])]
    return [_OBJECT, *_slots(value)] if _is_plain_object(value) else []


def vars_of(value: Any) -> dict[str, Any]:
    """The object's ``__dict__``; empty if it has none."""
    found = getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else {}


def _home(value: Any) -> str:
    return str(type(value).__module__).partition(".")[0]


def _is_plain_object(value: Any) -> bool:
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    is_python = kind.__new__ is object.__new__ and bool(kind.__flags__ & _IS_HEAP_TYPE)
    return is_python and _home(value) not in sys.stdlib_module_names


_IS_HEAP_TYPE = 1 << 9


def _slots(value: Any) -> list[Access]:
    return [_SLOTS] if next(slots_of(value), None) is not None else []


def _write_dict(held: dict[Any, Any], saved: Entries) -> None:
    kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict
    if all(a is b for a, b in zip(held, saved, strict=False)) and len(held) == len(saved):
        kind.update(held, saved)
        return
    kind.clear(held)
    kind.update(held, saved)


def _write_list(held: list[Any], saved: Entries) -> None:
    list.__setitem__(held, slice(None), list(saved.values()))


def _write_set(held: set[Any], saved: Entries) -> None:
    held.clear()
    held.update(saved)


def _write_deque(held: deque[Any], saved: Entries) -> None:
    held.clear()
    held.extend(saved.values())


def _write_slots(held: Any, saved: Entries) -> None:
    for name in [name for name, _ in slots_of(held) if name not in saved]:
        object.__delattr__(held, name)
    for name, value in saved.items():
        object.__setattr__(held, name, value)


def _cells(function: types.FunctionType) -> Entries:
    names = function.__code__.co_freevars
    pairs = zip(names, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in pairs if _is_filled(cell)}


def _write_cells(function: types.FunctionType, saved: Entries) -> None:
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        if name in saved:
            cell.cell_contents = saved[name]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _keep(held: Any, saved: Entries) -> None:
    """Writes nothing: the object is immutable, only its parts may change."""


def _state(read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> Access:
    """An access to a state that is one opaque value."""
    return Access(lambda held: {"": read(held)}, lambda held, e: write(held, e[""]), "")


def _read_partial(held: functools.partial[Any]) -> Entries:
    return {"func": held.func, "args": held.args, "keywords": held.keywords}


class Opaque:
    """A state that is compared and put back as a whole."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and _are_equal(self.value, other.value)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as of any mutable value

    def __repr__(self) -> str:
        return "a state"


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_are_equal(a[k], b[k]) for k in a)
    return a == b


def _read_array(held: Any) -> Opaque:
    return Opaque(None if held.dtype.hasobject else held.copy())


def _write_array(held: Any, saved: Opaque) -> None:
    if saved.value is not None:
        held[...] = saved.value


def _write_bits(held: Any, saved: Opaque) -> None:
    held.bit_generator.state = saved.value


_MODULE = Access(lambda held: dict(vars(held)), lambda held, e: _write_dict(vars(held), e), "")
_OBJECT = Access(
    lambda held: dict(vars_of(held)), lambda held, e: _write_dict(vars_of(held), e), ".{}"
)
_SLOTS = Access(lambda held: dict(slots_of(held)), _write_slots, ".{}")
# Derived classes before their bases.
_BY_KIND: dict[Any, Access] = {
    dict: Access(dict, _write_dict),
    list: Access(lambda held: dict(enumerate(held)), _write_list),
    tuple: Access(lambda held: dict(enumerate(held)), _keep),
    deque: Access(lambda held: dict(enumerate(held)), _write_deque),
    set: Access(dict.fromkeys, _write_set),
    types.FunctionType: Access(_cells, _write_cells, ".{}"),
    types.MethodType: Access(lambda held: {"self": held.__self__}, _keep, ".{}"),
    functools.partial: Access(_read_partial, _keep, ".{}"),
    np.ndarray: _state(_read_array, _write_array),
    np.random.Generator: _state(lambda g: Opaque(g.bit_generator.state), _write_bits),
    np.random.RandomState: _state(
        lambda g: Opaque(g.get_state(legacy=False)), lambda g, saved: g.set_state(saved.value)
    ),
    torch.Generator: _state(
        lambda g: Opaque(g.get_state()), lambda g, saved: g.set_state(saved.value)
    ),
    random.SystemRandom: Access(lambda held: {}, _keep, ""),  # the system's, which has no state
    random.Random: _state(
        lambda g: Opaque(g.getstate()),
        lambda g, saved: cast(random.Random, g).setstate(saved.value),
    ),
}
