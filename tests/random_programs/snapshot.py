"""What can be seen of a model and its module, as a flat dictionary: structure, values and bits.

Two are equal if nothing tells them apart: types, values (``-0.0`` is not ``0.0``, ``True`` not
``1``), tensors by bits and strides, generators by state, iterators by what they have left, and
which names stand for one object.
"""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import itertools
import random
import types
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.random_programs.load import nameless

Snapshot = dict[str, Hashable]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, range, slice)
_TEXTS = (torch.dtype, torch.device, torch.Size, torch.memory_format, torch.layout)
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, functools._lru_cache_wrapper)  # fmt: skip
_ITERATORS = (type(iter([])), type(iter(())), type(iter(range(0))), itertools.cycle)
_OF_CLASSES = {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__static_attributes__", "__firstlineno__", "__annotations__"}  # fmt: skip
_OF_MODULES = {"__builtins__", "__cached__", "__file__", "__loader__", "__name__", "__spec__", "__package__", "__doc__", "__warningregistry__"}  # fmt: skip


def snapshot(roots: Mapping[str, Any], module: types.ModuleType) -> Snapshot:
    """What is seen of these objects and of the globals of a program's module."""
    walk = _Walk(module.__name__)
    for name, value in roots.items():
        walk.see(name, value)
    for name, value in vars(module).items():
        if name not in _OF_MODULES:
            walk.see(f"G.{name}", value)
    return walk.found


def bits(t: torch.Tensor) -> bytes:
    """A tensor's elements."""
    t = t.detach().resolve_conj().resolve_neg()
    t = (t if t.is_contiguous() else t.contiguous()).reshape(-1)
    return t.view(torch.uint8).numpy().tobytes() if t.numel() else b""


def is_ours(value: Any) -> bool:
    """Whether an object is of taiyi_fx."""
    of = getattr(value, "func", getattr(value, "__func__", value))
    names = [getattr(of, "__module__", None), type(of).__module__, type(value).__module__]
    if isinstance(of, types.FunctionType):
        names.append(of.__globals__.get("__name__"))
    return any(str(name).partition(".")[0] == "taiyi_fx" for name in names)


class _Walk:
    def __init__(self, module: str) -> None:
        self.module, self.found, self.alive = module, Snapshot(), []
        self.seen: dict[Hashable, str] = {}

    def see(self, path: str, value: Any) -> None:
        """Writes down what is seen of a value."""
        if isinstance(value, _PLAIN):
            self.found[path] = (type(value).__name__, nameless(repr(value)))
        elif isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, _TEXTS):
            self.found[path] = str(value)
        elif isinstance(value, types.ModuleType):
            self.found[path] = ("module", nameless(value.__name__))
        elif isinstance(value, tuple):
            self._items(path, value)
        elif not self._again(path, _identity(value)):
            self._object(path, value)

    def _again(self, path: str, key: Hashable) -> bool:
        """Whether a path leads to something that was seen already, by another one."""
        first = self.seen.setdefault(key, path)
        if first != path:
            self.found[path] = ("same as", first)
        return first != path

    def _object(self, path: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            self._module(path, value)
        elif isinstance(value, Mapping):
            self._mapping(path, value)
        elif isinstance(value, (list, collections.deque)):
            self._items(path, value)
        elif isinstance(value, (set, frozenset)):
            self.found[path] = (type(value).__name__, *sorted(map(repr, value)))
        elif isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, _CALLABLES):
            self._callable(path, value)
        elif (state := _state(value)) is not None:
            self.found[path] = (type(value).__name__, state)
        elif isinstance(value, _ITERATORS):
            self._items(path, tuple(itertools.islice(copy.copy(value), 8)))
        elif isinstance(value, types.GeneratorType):
            self._generator(path, value)
        else:
            self._other(path, value)

    def _tensor(self, path: str, t: torch.Tensor) -> None:
        kind = type(t).__name__
        if isinstance(t, nn.parameter.UninitializedTensorMixin):
            self.found[path] = kind
            return
        if isinstance(t, nn.Parameter) and self._again(path, id(t)):
            return
        try:
            is_leaf: object = t.is_leaf
        except RuntimeError as error:  # of a view that was made in a Function and then changed
            is_leaf = str(error)
        about = (kind, str(t.dtype), tuple(t.shape), t.stride(), t.requires_grad, is_leaf)
        self.found[path] = (*about, bits(t))
        if t.numel():
            self._again(f"{path}.memory", ("memory", t.untyped_storage().data_ptr()))
        if is_leaf in (True, False):
            self._about(path, t)

    def _about(self, path: str, t: torch.Tensor) -> None:
        if t.is_leaf and t.grad is not None:
            self.see(f"{path}.grad", t.grad)
        if t.is_leaf and t._backward_hooks:
            self.found[f"{path}.hooks"] = len(t._backward_hooks)
        for name, value in vars(t).items():
            self.see(f"{path}.{name}", value)

    def _items(self, path: str, values: Any) -> None:
        self.found[path] = (type(values).__name__, len(values))
        self.alive.append(values)
        for i, value in enumerate(values):
            self.see(f"{path}[{i}]", value)

    def _mapping(self, path: str, values: Mapping[Any, Any]) -> None:
        keys = tuple(k if isinstance(k, (str, int)) else type(k).__name__ for k in values)
        self.found[path] = (type(values).__name__, keys)
        for key, value in zip(keys, list(values.values()), strict=True):
            self.see(f"{path}[{key!r}]", value)

    def _module(self, path: str, module: nn.Module) -> None:
        self.found[path] = ("nn.Module", type(module).__name__)
        for name, value in list(vars(module).items()):
            if name == "forward":  # one of an instance may stand around what taiyi_fx put there
                self.found[f"{path}.forward"] = "watched" if is_ours(value) else "own"
            elif name.startswith("_") and "hook" in name:
                self._hooks(f"{path}.{name}", value)
            elif isinstance(value, dict) and name in ("_parameters", "_buffers", "_modules"):
                self.found[f"{path}.{name}"] = tuple(value)
                for part, held in value.items():
                    self.see(f"{path}.{part}", held)
            else:
                self.see(f"{path}.{name}", value)

    def _hooks(self, path: str, hooks: Any) -> None:
        # Keys count up in the whole process.
        if isinstance(hooks, dict) and hooks:
            self._items(path, list(hooks.values()))
        elif hooks:
            self.found[path] = hooks if isinstance(hooks, bool) else type(hooks).__name__

    def _class(self, path: str, kind: type) -> None:
        self.found[path] = ("class", nameless(f"{kind.__module__}.{kind.__qualname__}"))
        if kind.__module__ == self.module:
            for name, value in list(vars(kind).items()):
                if name not in _OF_CLASSES:
                    self.see(f"{path}.{name}", value)

    def _callable(self, path: str, f: Any) -> None:
        of = getattr(f, "func", f)
        name = f"{getattr(of, '__module__', '')}.{getattr(of, '__qualname__', '')}"
        self.found[path] = (type(f).__name__, nameless(name))
        if isinstance(f, functools._lru_cache_wrapper):
            self.found[f"{path}.cache"] = str(f.cache_info())
        if isinstance(f, functools.partial):
            self.see(f"{path}.keywords", f.keywords)
            self.see(f"{path}.args", f.args)
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.see(f"{path}.__self__", owner)
        of = inspect.unwrap(getattr(f, "__func__", of))
        if isinstance(of, types.FunctionType) and of.__module__ == self.module:
            self._function(path, of)

    def _function(self, path: str, f: types.FunctionType) -> None:
        if f.__defaults__:
            self.see(f"{path}.__defaults__", f.__defaults__)
        for name, value in (f.__kwdefaults__ or {}).items():
            self.see(f"{path}.{name}=", value)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            if name != "__class__":
                self.see(f"{path}.<{name}>", cell.cell_contents)

    def _generator(self, path: str, of: types.GeneratorType[Any, Any, Any]) -> None:
        frame = of.gi_frame
        self.found[path] = ("generator", frame.f_lasti if frame else None)
        for name, value in (dict(frame.f_locals) if frame else {}).items():
            self.alive.append(value)
            self.see(f"{path}.{name}", value)

    def _other(self, path: str, value: Any) -> None:
        kind = type(value)
        self.found[path] = nameless(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, BaseException):
            self.found[path] = (kind.__name__, nameless(str(value)))
        if kind.__module__ != self.module:
            return
        for name in (*getattr(value, "__dict__", ()), *getattr(kind, "__slots__", ())):
            self.see(f"{path}.{name}", getattr(value, name, None))


def numpy_state(of: Any) -> Hashable:
    """The state of numpy's older generators, of which its module is one."""
    name, keys, *rest = of.get_state()
    return (name, keys.tobytes(), *rest)


def _state(value: Any) -> Hashable:
    """The state of what counts or draws, or None."""
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return numpy_state(value)
    if isinstance(value, torch.Generator):
        return bits(value.get_state())
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value) if isinstance(value, itertools.count) else None


def _identity(value: Any) -> int:
    # A model and what watches it may be two objects of one namespace.
    return id(value.__dict__ if isinstance(value, nn.Module) else value)
