"""A second module tree over the same parameters and buffers, to rewrite in place of the model."""

from __future__ import annotations

import enum
import functools
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

_HOOKS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
_SHARED = ("_parameters", "_buffers")
# Derived classes before their bases.
_CONTAINERS = (defaultdict, OrderedDict, dict, list, tuple, set, frozenset, deque)
# Never looked into: they hold no module, or are to stay the very same.
_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    enum.Enum,
    torch.Tensor,
    torch.dtype,
    torch.device,
    torch.Size,
    types.ModuleType,
    types.BuiltinFunctionType,
)
_PLAIN = frozenset((type(None), bool, int, float, str))
_DEPTH = 20


def clone_tree(root: nn.Module, *, apart: bool = False) -> nn.Module:
    """New module objects of the same classes around the same tensors.

    The dictionaries of parameters and buffers are the model's own, so that ``.to()``, an
    optimizer or ``load_state_dict`` act on both. Containers are copied; modules inside lists,
    dictionaries, bound methods, partials, closures and objects that hold them are replaced by
    their clones. Script modules live in C++ and stay the same objects.

    Args:
        root: The tree's root.
        apart: Copy these dictionaries, and objects that hold no modules too, so that running the
            clone's forward on stand-ins cannot leave any in what the model holds.
    """
    clones: dict[int, nn.Module] = {}
    for module in root.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            clones[id(module)] = object.__new__(type(module))
    repoint = Repointing(clones, apart=apart)
    cloned = [module for module in root.modules() if id(module) in clones]
    for module in cloned:
        vars(clones[id(module)]).update(_registries(module, repoint))
    for module in cloned:
        clone = clones[id(module)]
        for name, value in vars(module).items():
            if name not in vars(clone):
                vars(clone)[name] = repoint(value)
        for name, value in slots_of(module):
            object.__setattr__(clone, name, repoint(value))
    return clones.get(id(root), root)


def _registries(module: nn.Module, repoint: Repointing) -> dict[str, Any]:
    """The dictionaries that torch keeps for a module."""
    made: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name in _SHARED:
            made[name] = dict(value) if repoint.apart else value
        elif name == "_modules":
            made[name] = {k: repoint(v) for k, v in value.items()}
        elif name in _HOOKS:
            made[name] = repoint.registry(value) if value else OrderedDict()
        elif name == "_non_persistent_buffers_set":
            made[name] = set(value)
    return made


def slots_of(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """What a module keeps outside its dictionary, in slots of its class."""
    for kind in type(module).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(module, name):
                yield name, getattr(module, name)


class Repointing:
    """Copies of values in which modules are replaced by their clones, wherever they are held.

    One object held in two places stays one; an object may hold itself.
    """

    def __init__(self, clones: dict[int, nn.Module], *, apart: bool = False) -> None:
        self.clones = clones
        self.apart = apart
        self._done: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any, depth: int = 0) -> Any:
        """``value``, or a copy of it."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, nn.Module):
            return self.clones.get(id(value), value)
        if isinstance(value, _ATOMS) or depth > _DEPTH:
            return value
        if id(value) not in self._done:
            self._keep(value, value)
            self._keep(value, self._copy(value, depth + 1))
        return self._done[id(value)][1]

    def registry(self, hooks: OrderedDict[int, Any]) -> OrderedDict[int, Any]:
        """A copy of a dictionary of hooks, which handles are repointed to as well."""
        copied: OrderedDict[int, Any] = OrderedDict()
        self._keep(hooks, copied)
        copied.update((k, self(v)) for k, v in hooks.items())
        return copied

    def _keep(self, value: Any, copied: Any) -> None:
        # With the value itself, so that no other object gets its identity meanwhile.
        self._done[id(value)] = value, copied

    def _copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self(value.__self__, depth))
        if type(value) is weakref.ref:
            clone = self.clones.get(id(value()))
            return value if clone is None else weakref.ref(clone)
        if isinstance(value, RemovableHandle):
            return self._handle(value)
        is_own = type(value) in (*_CONTAINERS, functools.partial)
        is_copied = is_own or (self.apart and not isinstance(value, types.FunctionType))
        if not is_copied and not self._holds_clone(value, depth, set()):
            return value
        if type(value) is functools.partial:
            args = [self(v, depth) for v in value.args]
            keywords = {k: self(v, depth) for k, v in value.keywords.items()}
            return functools.partial(self(value.func, depth), *args, **keywords)
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if isinstance(value, _CONTAINERS):
            return self._container(value, depth)
        return self._object(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        """A list, dictionary, tuple or set, or an object of a class derived from one."""
        kind = type(value)
        base = _base(kind)
        if base in (tuple, frozenset):
            return base.__new__(kind, [self(v, depth) for v in value])
        copied = base.__new__(kind)
        self._keep(value, copied)
        if base is defaultdict:
            defaultdict.__init__(copied, value.default_factory)
        if base is deque:
            deque.__init__(copied, maxlen=value.maxlen)
        if issubclass(base, dict):
            base.update(copied, [(self(k, depth), self(v, depth)) for k, v in value.items()])
        else:
            add = set.update if base is set else base.extend
            add(copied, [self(v, depth) for v in value])
        for name, held in getattr(value, "__dict__", {}).items():
            copied.__dict__[name] = self(held, depth)
        return copied

    def _function(self, value: types.FunctionType, depth: int) -> Any:
        cells = value.__closure__ or ()
        made = types.FunctionType(
            value.__code__,
            value.__globals__,
            value.__name__,
            value.__defaults__ and tuple(self(d, depth) for d in value.__defaults__),
            tuple(types.CellType() for _ in cells),
        )
        self._keep(value, made)
        for old, new in zip(cells, made.__closure__ or (), strict=True):
            if _is_filled(old):
                new.cell_contents = self(old.cell_contents, depth)
        made.__kwdefaults__ = value.__kwdefaults__ and self(value.__kwdefaults__, depth)
        return functools.update_wrapper(made, value)

    def _object(self, value: Any, depth: int) -> Any:
        if not _is_plain_object(value):
            return value
        copied = cast(Any, type(value)).__new__(type(value))
        self._keep(value, copied)
        copied.__dict__.update((k, self(v, depth)) for k, v in vars(value).items())
        return copied

    def _handle(self, value: RemovableHandle) -> RemovableHandle:
        """A handle that removes the clone's hook."""
        registry = value.hooks_dict_ref()
        if id(registry) not in self._done:
            return value
        copied = object.__new__(RemovableHandle)
        copied.hooks_dict_ref = weakref.ref(self._done[id(registry)][1])
        copied.id = value.id
        extra = ((ref(), ref) for ref in value.extra_dict_ref)
        copied.extra_dict_ref = tuple(
            weakref.ref(self._done[id(held)][1]) if id(held) in self._done else ref
            for held, ref in extra
        )
        return copied

    def _holds_clone(self, value: Any, depth: int, looked_at: set[int]) -> bool:
        if id(value) in self.clones:
            return True
        if isinstance(value, (*_ATOMS, nn.Module)) or id(value) in looked_at or depth > _DEPTH:
            return False
        looked_at.add(id(value))
        return any(self._holds_clone(part, depth + 1, looked_at) for part in _held_by(value))


def _held_by(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, _CONTAINERS):
        yield from value
    if isinstance(value, types.MethodType):
        yield value.__self__
    elif isinstance(value, types.FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif type(value) is functools.partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif type(value) is weakref.ref:
        yield value()
    elif _is_plain_object(value) or isinstance(value, _CONTAINERS):
        yield from getattr(value, "__dict__", {}).values()


def _base(kind: type) -> Any:
    return next(c for c in _CONTAINERS if issubclass(kind, c))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_plain_object(value: Any) -> bool:
    """An object of a class written in Python that keeps all it holds in its dictionary."""
    kind = type(value)
    # One with a finalizer would release, twice, what the original holds.
    is_plain = kind is types.SimpleNamespace or (
        kind.__new__ is object.__new__ and not hasattr(kind, "__del__")
    )
    return is_plain and isinstance(getattr(value, "__dict__", None), dict)
