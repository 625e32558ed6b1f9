"""The modules that a configuration's key matches."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import types
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

from taiyi_fx.passes.module_tree import named_modules, submodule
from taiyi_fx.suggestion import suggestion

_LIBRARIES = ("torch", "operator", "math")
_HOMES = frozenset((*_LIBRARIES, "_operator"))
_BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def is_function(key: Any) -> bool:
    """True if a configuration's key is a function whose calls are the target.

    These are torch's and Python's; a function of the user's own is a predicate.
    """
    if isinstance(key, type) or not callable(key):
        return False
    home = (getattr(key, "__module__", None) or "").partition(".")[0]
    return isinstance(key, _BUILTIN) or home in _HOMES


def resolved(model: nn.Module, key: Any) -> Any:
    """The key itself, or the class or function that a path such as ``"torch.nn.Linear"`` names.

    A module of the model with that name comes first. No text becomes a predicate: a file of a
    configuration cannot call anything.
    """
    library, _, path = key.partition(".") if isinstance(key, str) else ("", "", "")
    if library not in _LIBRARIES or not path or is_name(model, key):
        return key
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(library))
    except AttributeError:
        return key
    return found if isinstance(found, type) or is_function(found) else key


def match(model: nn.Module, key: Any, path: str, problems: list[str]) -> dict[str, nn.Module]:
    """The modules that a key matches, by their first names; adds errors to the problems."""
    modules = dict(named_modules(model))
    if isinstance(key, str):
        found = _match_text(model, modules, key)
        if not found:
            problems.append(f"{path}: {_nothing(model, modules, key)}")
        return found
    if isinstance(key, type) and issubclass(key, nn.Module):
        found = {name: m for name, m in modules.items() if isinstance(m, key)}
    elif isinstance(key, type) or not callable(key):
        problems.append(f"{path}: {_KEYS}")
        return {}
    else:
        try:
            found = {name: m for name, m in modules.items() if key(name, m)}
        except Exception as error:  # noqa: BLE001 - a failure of the user's function is a wrong key
            problems.append(f"{path}: the predicate raised {type(error).__name__}: {error}")
            return {}
    if not found:
        problems.append(f"{path}: no module of the model matches")
    return found


_KEYS = (
    "a key is a module's name, a class's name, a class of modules, a pattern with * ? [ ], a "
    "function of torch or operator, or a predicate of name and module"
)


def _match_text(
    model: nn.Module, modules: Mapping[str, nn.Module], key: str
) -> dict[str, nn.Module]:
    if is_name(model, key):
        module = submodule(model, key)
        return {name: m for name, m in modules.items() if m is module}
    of_class = {name: m for name, m in modules.items() if key in _class_names(m)}
    if of_class or not any(c in key for c in "*?["):
        return of_class
    return {name: m for name, m in modules.items() if name and fnmatch.fnmatchcase(name, key)}


def is_name(model: nn.Module, key: Any) -> bool:
    """True if a key is the dotted name of one of the model's modules."""
    return isinstance(key, str) and key in dict(named_modules(model, remove_duplicate=False))


def _class_names(module: nn.Module) -> set[str]:
    classes = [type(module)]
    if parametrize.is_parametrized(module):
        classes += type(module).__bases__  # the class that the parametrized one was made from
    return {c.__name__ for c in classes}


def _nothing(model: nn.Module, modules: Mapping[str, nn.Module], key: str) -> str:
    if any(c in key for c in "*?["):
        return f"no module's name fits the pattern {key!r}"
    names = [name for name in modules if name]
    classes = sorted({type(m).__name__ for m in modules.values()})
    return f"no module is named or of class {key!r}.{suggestion(key, [*classes, *names])}"
