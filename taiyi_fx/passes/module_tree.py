"""The modules, parameters and buffers of a model, found without running code of its own.

A model's class may override `nn.Module.named_modules` and its like: to hide a part, to rename
parameters, to count. The functions of these names here are torch's, of any module. Modules are told
apart by identity.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.utils.weak import WeakIdKeyDictionary


def named_modules(
    root: nn.Module, *, remove_duplicate: bool = True
) -> Iterator[tuple[str, nn.Module]]:
    """A module and all its parts with their dotted names, each before its own parts.

    Args:
        root: The module.
        remove_duplicate: True if a part with several names comes once, under the first.
    """
    waiting, met = [("", root)], set[int]()
    while waiting:
        name, module = waiting.pop()
        if remove_duplicate and id(module) in met:
            continue
        met.add(id(module))
        yield name, module
        within = f"{name}." if name else ""
        parts = [(within + key, part) for key, part in _held(module, "_modules")]
        waiting += parts[::-1]


def modules_of(root: nn.Module) -> Iterator[nn.Module]:
    """A module and all its parts."""
    return (module for _, module in named_modules(root))


def names_in(root: nn.Module) -> MutableMapping[nn.Module, str]:
    """The name of a module and of each of its parts, the first of several."""
    found: MutableMapping[nn.Module, str] = WeakIdKeyDictionary()
    for name, module in named_modules(root):
        found[module] = name
    return found


def named_children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts that a module itself holds, each once."""
    met = set[int]()
    for name, part in _held(module, "_modules"):
        if id(part) not in met:
            met.add(id(part))
            yield name, part


def children_of(module: nn.Module) -> Iterator[nn.Module]:
    """The same without names."""
    return (part for _, part in named_children(module))


def has_children(module: nn.Module) -> bool:
    """True if a module holds parts."""
    return next(children_of(module), None) is not None


def submodule(root: nn.Module, name: str) -> nn.Module:
    """The part with a dotted name.

    Raises:
        AttributeError: There is none.
    """
    module = root
    for key in name.split(".") if name else ():
        part = dict(_held(module, "_modules")).get(key)
        if part is None:
            raise AttributeError(f"{type(module).__name__} has no part {key!r}, of {name!r}")
        module = part
    return module


def named_parameters(root: nn.Module, *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
    """The parameters of a module and its parts with their dotted names, each once.

    Args:
        root: The module.
        recurse: False for those alone that the module itself holds.
    """
    return _named_tensors(root, "_parameters", recurse)


def parameters_of(root: nn.Module) -> Iterator[Parameter]:
    """The same without names."""
    return (parameter for _, parameter in named_parameters(root))


def named_buffers(root: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The buffers of a module and its parts with their dotted names, each once."""
    return _named_tensors(root, "_buffers", recurse=True)


def buffers_of(root: nn.Module) -> Iterator[Tensor]:
    """The same without names."""
    return (buffer for _, buffer in named_buffers(root))


def _named_tensors(root: nn.Module, kind: str, recurse: bool) -> Iterator[tuple[str, Any]]:
    met = set[int]()
    for name, module in named_modules(root) if recurse else [("", root)]:
        within = f"{name}." if name else ""
        for key, tensor in _held(module, kind):
            if id(tensor) not in met:
                met.add(id(tensor))
                yield within + key, tensor


def _held(module: nn.Module, kind: str) -> list[tuple[str, Any]]:
    is_script = issubclass(type(module), torch.jit.ScriptModule)  # which keeps them in C++
    every = getattr(module, kind) if is_script else vars(module)[kind]
    return [(name, held) for name, held in every.items() if held is not None]
