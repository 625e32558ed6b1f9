"""Facts about a model that no number tells: forward hooks, modes, axes, what is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import permutations
from typing import Any

_MATRIX = 2
_SWITCH, _CLOSE = "requires_grad", 0.85
_COUPLINGS, _SMALL = 3, 4096
"""Modules of one class with a mask, and entries of one that is looked at."""


def frozen_of(modules: Mapping[str, Any]) -> frozenset[str]:
    """The modules with parameters of their own of which none requires a gradient."""
    own = {name: own_parameters(module) for name, module in modules.items()}
    return frozenset(n for n, ps in own.items() if ps and not any(p.requires_grad for p in ps))


def idle_switches_of(modules: Mapping[str, Any]) -> dict[str, str]:
    """The attributes that say otherwise of training than parameters, which know nothing of it.

    By the name of the module or of the parameter: ``{"layer3": "requires_grad = True"}``.
    """
    found: dict[str, str] = {}
    for name, module in modules.items():
        asked = vars(module).get(_SWITCH)
        trained = {p.requires_grad for part in _all_parts(module) for p in own_parameters(part)}
        if isinstance(asked, bool) and trained == {not asked}:
            found[name] = f"{_SWITCH} = {asked}"
        for own, parameter in module._parameters.items():
            for word, told in getattr(parameter, "__dict__", {}).items():
                is_meant = bool(get_close_matches(word, [_SWITCH], cutoff=_CLOSE))
                if is_meant and isinstance(told, bool) and told != parameter.requires_grad:
                    found[f"{name}.{own}" if name else own] = f"{word} = {told}"
    return found


def _all_parts(module: Any) -> list[Any]:
    """A module, and all in it, each once."""
    every = {id(module): module}
    waiting = [module]
    for part in waiting:  # which grows on the way
        new = {id(inner): inner for inner in _parts(part) if id(inner) not in every}
        every |= new
        waiting += new.values()
    return waiting


def owners_of(modules: Mapping[str, Any]) -> dict[int, str]:
    """The first module that has each parameter for its own, by the parameter's id."""
    found: dict[int, str] = {}
    for name, module in modules.items():
        for parameter in own_parameters(module):
            found.setdefault(id(parameter), name)
    return found


def frozen_adapters_of(modules: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules with parameters of LoRA, if none of these are to be trained though others are.

    They are told by their names, or by being two small matrices whose product has the shape of a
    weight within the same module.
    """
    every = {
        f"{name}.{own}": (name, parameter.requires_grad)
        for name, module in modules.items()
        for own, parameter in module._parameters.items()
        if parameter is not None
    }
    factors = {f"{name}.{own}" for name, module in modules.items() for own in _factors(module)}
    adapters = {
        path: known for path, known in every.items() if "lora" in path.lower() or path in factors
    }
    trained = {path for path, (_, is_trained) in every.items() if is_trained}
    if not trained or not trained.isdisjoint(adapters):
        return ()
    return tuple(dict.fromkeys(name for name, _ in adapters.values()))


def _factors(module: Any) -> set[str]:
    """The names of a module's own matrices that are the factors of a change of a weight in it."""
    own = {name: _matrix(p) for name, p in module._parameters.items() if _matrix(p)}
    shapes = {_matrix(part._parameters.get("weight")) for part in _parts(module)}
    shapes |= {shape[::-1] for shape in shapes}
    return {
        name
        for (a, first), (b, second) in permutations(own.items(), 2)
        if first[1] == second[0] < min(first[0], second[1]) and (first[0], second[1]) in shapes
        for name in (a, b)
    }


def _matrix(parameter: Any) -> tuple[int, ...]:
    """The shape of a matrix; empty of others, and of one that has no shape yet."""
    if parameter is None or hasattr(type(parameter), "cls_to_become"):
        return ()
    return tuple(parameter.shape) if len(parameter.shape) == _MATRIX else ()


def batch_axes_of(modules: Mapping[str, Any]) -> dict[str, int]:
    """The axis that each layer with a ``batch_first`` takes for that of the batch."""
    own = {name: vars(module).get("batch_first") for name, module in modules.items()}
    return {name: 0 if first else 1 for name, first in own.items() if isinstance(first, bool)}


def evaluates(modules: Mapping[str, Any]) -> str:
    """The class of a dropout or BatchNorm in a model of which nothing is in training mode.

    Empty if something is, or there is none.
    """
    if any(module.training for module in modules.values()):
        return ""
    return next((name for m in modules.values() if (name := _differing(m))), "")


def _differing(module: Any) -> str:
    """The class of a module that acts otherwise in training; else empty."""
    name, own = type(module).__name__, vars(module)
    drops = "Dropout" in name and isinstance(own.get("p"), float) and own["p"] > 0
    has_statistics = "BatchNorm" in name and module._buffers.get("running_mean") is not None
    return name if drops or has_statistics else ""


def hooks_of(modules: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of the forward hooks of each module that has any, and of those before forward."""
    found: dict[str, list[str]] = {}
    for name, module in modules.items():
        # As torch has no other way to see them.
        hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        if hooks:
            found[name] = [getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks]
    return found


def repeated_in(modules: Mapping[str, Any]) -> dict[str, int]:
    """The number of entries that are one and the same module with parameters, by their list's name.

    Of `ModuleList`, `ModuleDict`, `Sequential` and other modules that hold others under numbers or
    names of their own; an activation that stands at many places holds nothing.
    """
    found: dict[str, int] = {}
    for name, module in modules.items():
        counts = Counter(id(entry) for entry in _parts(module) if _has_parameters(entry))
        if counts and max(counts.values()) > 1:
            found[name] = max(counts.values())
    return found


def same_masks_in(modules: Mapping[str, Any]) -> dict[str, int]:
    """The number of modules of one class whose own mask of features is the same, by the first.

    Of masks of 0 and 1 along one axis, as the couplings of a flow have, which are to take turns.
    """
    masks: dict[type, list[tuple[str, tuple[float, ...]]]] = {}
    for name, module in modules.items():
        is_own = not type(module).__module__.startswith("torch.")
        for buffer in module._buffers.values() if is_own else ():
            if entries := _of_zeros_and_ones(buffer):
                masks.setdefault(type(module), []).append((name, entries))
    return {
        every[0][0]: len(every)
        for every in masks.values()
        if len(every) >= _COUPLINGS and len({entries for _, entries in every}) == 1
    }


def _of_zeros_and_ones(buffer: Any) -> tuple[float, ...]:
    """The entries of a small mask along one axis that has both; empty of others."""
    if buffer is None or buffer.device.type != "cpu" or not 1 < buffer.numel() <= _SMALL:
        return ()
    if max(buffer.shape) != buffer.numel():
        return ()
    entries = tuple(map(float, buffer.flatten().tolist()))
    return entries if set(entries) == {0.0, 1.0} else ()


# As torch holds them: a class may have a `parameters` of its own, and none of its code is run.
def own_parameters(module: Any) -> list[Any]:
    """The parameters of a module itself."""
    return [p for p in module._parameters.values() if p is not None]


def _parts(module: Any) -> list[Any]:
    return [part for part in module._modules.values() if part is not None]


def _has_parameters(module: Any) -> bool:
    seen, left = set[int](), [module]
    while left:
        one = left.pop()
        if own_parameters(one):
            return True
        seen.add(id(one))
        left += [part for part in _parts(one) if id(part) not in seen]
    return False
