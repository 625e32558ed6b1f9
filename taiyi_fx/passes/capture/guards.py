"""Guards: all that a captured graph relies on, and the check that it still holds.

Each step of each path that a forward reads by is a guard: an entry of a dictionary (a module's
attributes, a function's globals), or an attribute of a class, a Python module, a function or a
cell. While all guards hold, the forward would read what the graph was made of.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module

from taiyi_fx.passes.capture.values import SIMPLE
from taiyi_fx.passes.override import ForwardOverride

MISSING: Any = object()
"""The value of a guard on a name that does not exist."""
TENSOR: Any = object()
"""The value of a guard on a name that holds a tensor, no matter which."""

_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)
_ENTRIES = ("forward", "_compiled_call_impl")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HOOKS_OF = operator.itemgetter(*HOOKS)
_ATTRIBUTES_OF = operator.attrgetter("__dict__")


@dataclass(frozen=True)
class Submodule:
    """The value of a guard on a name that holds a module, by the module's name in the model."""

    name: str


@dataclass(frozen=True)
class Guard:
    """One thing that a captured graph relies on.

    Attributes:
        owner: The holder: the name of a module of the model, or any other object.
        name: Its name there.
        value: The value at the time of the capture.
        space: For a module, the dictionary that holds it; ``""`` is that of its attributes.
    """

    owner: Any
    name: str
    value: Any
    space: str = ""


class Guards:
    """All that one captured graph relies on.

    Attributes:
        children: By a module's name, the names and keys of all its parts, where a forward goes
            through them.
        modules: Classes by the names of the modules that are entered or called, none of which has
            hooks.
        asked: The answers of torch's functions about its state.
    """

    def __init__(self) -> None:
        self._guards: dict[tuple[Any, str, str], Guard] = {}
        self.children: dict[str, dict[str, str | None]] = {}
        self.modules: dict[str, type[nn.Module]] = {}
        self.asked: dict[Callable[[], Any], Any] = {}

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    def require(self, owner: Any, name: str, value: Any, space: str = "") -> None:
        """Records that an owner holds a value by a name."""
        key = (owner if isinstance(owner, str) else id(owner), name, space)
        self._guards.setdefault(key, Guard(owner, name, value, space))

    def bind(self, root: nn.Module, part: str, reader: Any = None) -> BoundGuards:
        """The guards of a graph that stands in for a part of a model, or of its copy."""
        return BoundGuards(self, root, part, reader)


# Guards are checked at every forward that is read, so they are bound once to the dictionaries and
# objects that hold the values, and compared there by identity; only what is not the same object is
# compared by value. Entries of dictionaries are read with `get`, as a plain attribute look-up
# might run code of the model.
#
# Two halves, for torch.compile: `values_hold` reads in a way that the compiler turns into guards of
# its own (entries, attributes, lengths), so that code is compiled again when one changes.
# `runs_the_same` checks what the compiler guards anyway (classes, hooks, code objects) or cannot
# express; it runs once, as ordinary Python, while the compiler traces.
Row = tuple[Any, str, Any]


class BoundGuards:
    """The guards of one graph, bound to the modules of one model.

    Args:
        guards: The guards.
        root: The model.
        part: The name of the part whose forward the graph stands in for.
        reader: The state of the forwards that the graph is read in; where others read the same
            parts meanwhile, it cannot run.
    """

    def __init__(self, guards: Guards, root: nn.Module, part: str, reader: Any = None) -> None:
        self.reader = reader
        modules = {name: _submodule(root, name) for name in _names_in(guards)}
        self.modules = list(modules.values())
        self.attributes = [vars(module) for module in self.modules]
        self.held: list[Row] = []
        self.settings: list[Row] = []
        self.answered: list[Row] = []
        for guard in guards:
            value = guard.value
            if isinstance(value, Submodule):
                value = modules[value.name]
            if isinstance(guard.owner, str):
                owner = vars(modules[guard.owner])
                self.held.append((owner[guard.space] if guard.space else owner, guard.name, value))
            elif isinstance(guard.owner, dict):
                self.held.append((guard.owner, guard.name, value))
            else:
                rows = self.settings if _is_setting(guard) else self.answered
                rows.append((guard.owner, guard.name, value))
        self.columns = [[*column] for column in zip(*self.held, strict=True)]
        # Each dictionary of parts, parameters or buffers that is read, and where it is kept.
        used = {(g.owner, g.space) for g in guards if isinstance(g.owner, str) and g.space}
        self.owners = [vars(modules[name]) for name, _ in used]
        self.spaces = [space for _, space in used]
        self.kept = [vars(modules[name])[space] for name, space in used]
        self.children = [
            (
                modules[name],
                [None if n is None else modules[n] for n in kept.values()],
                [*kept],
            )
            for name, kept in guards.children.items()
        ]
        self.parts = ";".join(_numbers(parts) for _, parts, _ in self.children)
        self.entered = [modules[name] for name in guards.modules]
        self.entered_attributes = [vars(module) for module in self.entered]
        self.kinds = list(guards.modules.values())
        # If the part's own forward was wrapped, the wrapper called this one.
        self.own = [modules[name] for name in guards.modules if name != part]
        self.own_attributes = [vars(module) for module in self.own]
        self.asked = list(guards.asked.items())

    def hold(self) -> bool:
        """True if nothing that the graph relies on has changed."""
        return self.values_hold() and self.runs_the_same()

    def values_hold(self) -> bool:
        """True if all values are as they were; checked in a way that torch.compile guards on."""
        for function, value in self.asked:
            if function() is not value:
                return False
        if is_compiling():
            for owner, name, value in self.held:
                found = owner.get(name, MISSING)
                if found is not value and not _agrees(found, value):
                    return False
            # For each module that is compared itself, the compiler adds a guard written in Python.
            found = (_numbers(module._modules.values()) for module, _, _ in self.children)
            return _answer(self.settings) and self.parts == ";".join(found)
        if not self._are_held():
            return False
        for module, expected, _ in self.children:
            held = module._modules
            # By identity: a part may be equal to the one that it took the place of.
            if len(held) != len(expected) or not all(map(operator.is_, held.values(), expected)):
                return False
        return _answer(self.settings)

    def _are_held(self) -> bool:
        """True if the entries of dictionaries are what they were."""
        if not self.columns:
            return True
        owners, names, values = self.columns
        held = [*map(dict.get, owners, names, repeat(MISSING))]
        # Nearly all are the very same object, and this is checked at each forward that is read.
        if all(map(operator.is_, held, values)):
            return True
        pairs = zip(held, values, strict=True)
        return all(found is value or _agrees(found, value) for found, value in pairs)

    def runs_the_same(self) -> bool:
        """True if there are no hooks, and classes and functions are what was captured."""
        # A model has hundreds of modules, and this is checked at each forward that is read: so only
        # builtins look at each.
        bound = map(operator.is_, map(_ATTRIBUTES_OF, self.modules), self.attributes)
        kept = map(operator.is_, map(dict.get, self.owners, self.spaces), self.kept)
        kinds = map(operator.is_, map(type, self.entered), self.kinds)
        if not (all(bound) and all(kept) and all(kinds)) or any(_GLOBAL_HOOKS):
            return False
        if any(map(any, map(_HOOKS_OF, self.entered_attributes))):
            return False
        for module, _, keys in self.children:
            if list(module._modules) != keys:
                return False
        for name in _ENTRIES:  # that could stand in for a class's forward
            if any(map(operator.contains, self.own_attributes, repeat(name))):
                if not all(map(self._runs_its_class, self.own)):
                    return False
                break
        return _answer(self.answered)

    def _runs_its_class(self, module: nn.Module) -> bool:
        """True if a module runs its class's forward, or overrides that this graph stands for."""
        own = vars(module)
        found = own.get("forward")
        while isinstance(found, ForwardOverride):
            if found.is_read_by_another(self.reader):
                return False
            found = found.below
        return found is None and own.get("_compiled_call_impl") is None


def _numbers(parts: Iterable[nn.Module | None]) -> str:
    """The identity of each module, in one constant."""
    return ",".join(["" if part is None else f"{id(part)}" for part in parts])


def _answer(rows: list[Row]) -> bool:
    """True if attributes have the values that they had."""
    for owner, name, value in rows:
        found = getattr(owner, name, MISSING)
        if found is not value and not _agrees(found, value):
            return False
    return True


def same(found: Any, expected: Any) -> bool:
    """True if two plain values are the same to the bit: 0.0 is not -0.0, and True is not 1."""
    if type(found) is not type(expected):
        return False
    if found is expected and not isinstance(found, (tuple, list, dict)):
        return True
    if isinstance(found, (tuple, list)):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict):
        return same([*found], [*expected]) and same([*found.values()], [*expected.values()])
    if isinstance(found, complex):
        return same(found.real, expected.real) and same(found.imag, expected.imag)
    if isinstance(found, float):
        return _are_equal_bits(found, expected)
    return type(found) in _SIMPLE and found == expected


def _are_equal_bits(a: float, b: float) -> bool:
    """True if two numbers have the same bits: -0.0 is not 0.0, and a NaN may be itself."""
    if a == 0 == b:
        return math.copysign(1, a) == math.copysign(1, b)
    # The compiler traces comparisons of a number that changes, but cannot trace `struct`.
    return a == b or (a != a and b != b and struct.pack("d", a) == struct.pack("d", b))


def _agrees(found: Any, value: Any) -> bool:
    if value is TENSOR:
        return isinstance(found, torch.Tensor)
    return found is value or (isinstance(value, _COMPARED) and same(found, value))


_SIMPLE = tuple(SIMPLE)  # the compiler of torch 2.6 looks into no frozenset
_COMPARED = (*_SIMPLE, tuple, list, dict)


def _is_setting(guard: Guard) -> bool:
    """True if torch.compile has to check it at each call: it guards the rest itself, or once."""
    is_named = isinstance(guard.owner, (type, type(torch))) and not guard.name.startswith("__")
    return is_named and guard.name != "forward" and guard.value is not MISSING


def _names_in(guards: Guards) -> set[str]:
    owners = {g.owner for g in guards if isinstance(g.owner, str)}
    values = {g.value.name for g in guards if isinstance(g.value, Submodule)}
    kept = {n for found in guards.children.values() for n in found.values() if n is not None}
    return owners | values | kept | guards.children.keys() | guards.modules.keys()


def _submodule(root: nn.Module, name: str) -> nn.Module:
    found: Any = root
    for key in name.split(".") if name else ():
        found = found._modules[key]
    return found
