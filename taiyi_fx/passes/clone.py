"""A second module tree over the same parameters and buffers, to rewrite in place of the model."""

from __future__ import annotations

import functools
from collections import OrderedDict
from types import MethodType
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


def clone_tree(root: nn.Module) -> nn.Module:
    """New module objects of the same classes around the same tensors.

    The dictionaries of parameters and buffers are the model's own, so that ``.to()``, an
    optimizer or ``load_state_dict`` act on both. Everything else that a module holds is copied
    one level deep, with modules inside lists, dicts, tuples, bound methods and partials
    replaced by their clones. Script modules live in C++ and stay the same objects.
    """
    clones: dict[int, nn.Module] = {}
    for module in root.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            clones[id(module)] = object.__new__(type(module))
    for module in root.modules():
        if id(module) in clones:
            state = {k: _cloned_entry(k, v, clones) for k, v in vars(module).items()}
            vars(clones[id(module)]).update(state)
    return clones.get(id(root), root)


def _cloned_entry(name: str, value: Any, clones: dict[int, nn.Module]) -> Any:
    if name in _SHARED:
        return value
    if name == "_modules":
        return {k: repoint(v, clones) for k, v in value.items()}
    if name in _HOOKS:
        return OrderedDict((k, repoint(v, clones)) for k, v in value.items())
    return repoint(value, clones)


def repoint(value: Any, clones: dict[int, nn.Module]) -> Any:
    """``value`` with every module that has a clone replaced, inside plain containers too."""
    if isinstance(value, nn.Module):
        return clones.get(id(value), value)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, repoint(value.__self__, clones))
    if type(value) is functools.partial:
        args = [repoint(v, clones) for v in value.args]
        keywords = {k: repoint(v, clones) for k, v in value.keywords.items()}
        return functools.partial(repoint(value.func, clones), *args, **keywords)
    if type(value) in (list, tuple, set):
        return type(value)(repoint(v, clones) for v in value)
    if type(value) in (dict, OrderedDict):
        return type(value)((k, repoint(v, clones)) for k, v in value.items())
    return value
