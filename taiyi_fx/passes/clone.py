"""A second module tree over the same parameters and buffers, to rewrite in place of the model."""

from __future__ import annotations

import enum
import functools
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

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
_SEQUENCES = (list, tuple, set, frozenset, deque)
_MAPPINGS = (dict, OrderedDict, defaultdict)
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
    types.ModuleType,
    types.BuiltinFunctionType,
)
_DEPTH = 6


def clone_tree(root: nn.Module, *, apart: bool = False) -> nn.Module:
    """New module objects of the same classes around the same tensors.

    The dictionaries of parameters and buffers are the model's own, so that ``.to()``, an
    optimizer or ``load_state_dict`` act on both. Containers are copied; modules inside lists,
    dictionaries, bound methods, partials, closures and objects that hold them are replaced by
    their clones. Script modules live in C++ and stay the same objects.

    Args:
        root: The tree's root.
        apart: Copy objects that hold no modules too, so that running the clone's forward on
            stand-ins cannot leave any in what the model holds.
    """
    clones: dict[int, nn.Module] = {}
    for module in root.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            clones[id(module)] = object.__new__(type(module))
    repoint = Repointing(clones, apart=apart)
    for module in root.modules():
        if id(module) in clones:
            state = {k: _cloned_entry(k, v, repoint) for k, v in vars(module).items()}
            vars(clones[id(module)]).update(state)
    return clones.get(id(root), root)


def _cloned_entry(name: str, value: Any, repoint: Repointing) -> Any:
    if name in _SHARED:
        return value
    if name == "_modules":
        return {k: repoint(v) for k, v in value.items()}
    if name in _HOOKS:
        return OrderedDict((k, repoint(v)) for k, v in value.items())
    return repoint(value)


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
        if isinstance(value, nn.Module):
            return self.clones.get(id(value), value)
        if isinstance(value, _ATOMS) or depth > _DEPTH:
            return value
        if id(value) not in self._done:
            # Kept beside its copy, so that no other object gets its identity meanwhile.
            self._done[id(value)] = value, value
            self._done[id(value)] = value, self._copy(value, depth + 1)
        return self._done[id(value)][1]

    def _copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in (list, dict, OrderedDict, defaultdict, deque):
            return self._filled(value, depth)
        if kind in _SEQUENCES:
            return kind(self(v, depth) for v in value)
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self(value.__self__, depth))
        if kind is functools.partial:
            args = [self(v, depth) for v in value.args]
            keywords = {k: self(v, depth) for k, v in value.keywords.items()}
            return functools.partial(self(value.func, depth), *args, **keywords)
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if kind is weakref.ref:
            clone = self.clones.get(id(value()))
            return value if clone is None else weakref.ref(clone)
        return self._object(value, depth)

    def _filled(self, value: Any, depth: int) -> Any:
        if isinstance(value, (list, deque)):
            copied = [] if isinstance(value, list) else deque(maxlen=value.maxlen)
            self._done[id(value)] = value, copied
            copied.extend(self(v, depth) for v in value)
            return copied
        copied = defaultdict(value.default_factory) if type(value) is defaultdict else type(value)()
        self._done[id(value)] = value, copied
        copied.update((self(k, depth), self(v, depth)) for k, v in value.items())
        return copied

    def _function(self, value: types.FunctionType, depth: int) -> Any:
        cells = value.__closure__ or ()
        held = [_content(cell) for cell in cells]
        if not any(isinstance(h, nn.Module) and id(h) in self.clones for h in held):
            return value
        closure = tuple(
            types.CellType(self(h, depth)) if id(h) in self.clones else cell
            for h, cell in zip(held, cells, strict=True)
        )
        made = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, closure
        )
        made.__kwdefaults__ = value.__kwdefaults__
        return functools.update_wrapper(made, value)

    def _object(self, value: Any, depth: int) -> Any:
        """An object of a class written in Python: copied where it holds a module."""
        if not _is_plain_object(value):
            return value
        if not self.apart and not self._holds_clone(value, depth, set()):
            return value
        copied = object.__new__(type(value))
        self._done[id(value)] = value, copied
        copied.__dict__.update((k, self(v, depth)) for k, v in vars(value).items())
        return copied

    def _holds_clone(self, value: Any, depth: int, looked_at: set[int]) -> bool:
        if id(value) in self.clones:
            return True
        if isinstance(value, (*_ATOMS, nn.Module)) or id(value) in looked_at or depth > _DEPTH:
            return False
        looked_at.add(id(value))
        return any(self._holds_clone(part, depth + 1, looked_at) for part in _held_by(value))


def _held_by(value: Any) -> Iterable[Any]:
    if isinstance(value, _SEQUENCES):
        return value
    if isinstance(value, _MAPPINGS):
        return (*value.keys(), *value.values())
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, types.FunctionType):
        return map(_content, value.__closure__ or ())
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    return vars(value).values() if _is_plain_object(value) else ()


def _is_plain_object(value: Any) -> bool:
    kind = type(value)
    is_plain = kind.__setattr__ is object.__setattr__ and kind.__new__ is object.__new__
    return is_plain and isinstance(getattr(value, "__dict__", None), dict)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
