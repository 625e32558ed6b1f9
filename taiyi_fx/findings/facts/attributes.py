"""The settings of modules and the names of their parameters, by which siblings are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

_NO_MATTER = frozenset({"inplace", "training"})
"""Attributes that change no number, and one that is asked of some classes alone."""
_OF_MODES = ("Dropout", "BatchNorm")
_RECURRENT = "torch.nn.modules.rnn."
_TABLES = ("torch.nn.modules.sparse.Embedding", "torch.nn.modules.sparse.EmbeddingBag")
_PLAIN = (float, bool, str)
"""Types of settings: whole numbers are mostly sizes, which differ from stage to stage."""


class Attributes(NamedTuple):
    """The class, settings and parameters of a module.

    Attributes:
        kind: Its class.
        settings: Its own settings that are no whole numbers, by name; its mode, if it acts
            otherwise in training; and the names of its parameters, as ``"parameters"``.
        features: The number that a linear layer is given, and the one that it returns; else zeros.
        sizes: The shapes of the weights in it, by name.
        numbers: Its own whole numbers, tuples of these and attributes that are None, by name, and
            its mode: mostly they follow from sizes, or from its place.
    """

    kind: str
    settings: Mapping[str, float | bool | str]
    features: tuple[int, int] = (0, 0)
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    numbers: Mapping[str, object] = MappingProxyType({})


def attributes_of(modules: Mapping[str, Any]) -> dict[str, Attributes]:
    """The attributes of each module, of which no code is run.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    sizes = _sizes(modules)
    return {name: _attributes(module, sizes[name]) for name, module in modules.items()}


def is_recurrent(name: str, attributes: Mapping[str, Attributes]) -> bool:
    """True for a recurrent layer of torch."""
    return name in attributes and attributes[name].kind.startswith(_RECURRENT)


def is_table(name: str, attributes: Mapping[str, Attributes]) -> bool:
    """True for an embedding of torch, which is given indices."""
    return name in attributes and attributes[name].kind in _TABLES


def _sizes(modules: Mapping[str, Any]) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    sizes: dict[str, list[tuple[str, tuple[int, ...]]]] = {name: [] for name in modules}
    for name, module in modules.items():
        own = {**module._buffers, **module._parameters}.get("weight")
        if own is None or hasattr(type(own), "cls_to_become"):  # which has no shape yet
            continue
        parts = name.split(".") if name else []
        for i in range(len(parts) + 1):
            if (around := ".".join(parts[:i])) in sizes:
                sizes[around].append((".".join(parts[i:]), tuple(own.shape)))
    return sizes


def _attributes(module: Any, sizes: Sequence[tuple[str, tuple[int, ...]]]) -> Attributes:
    kind = type(module).__name__
    settings = {
        name: own
        for name, own in vars(module).items()
        if type(own) in _PLAIN and not name.startswith("_") and name not in _NO_MATTER
    }
    if any(word in kind for word in _OF_MODES) and type(vars(module).get("training")) is bool:
        settings["training"] = vars(module)["training"]
    has = sorted(name for name, own in module._parameters.items() if own is not None)
    settings["parameters"] = ", ".join(has)
    path = f"{type(module).__module__}.{kind}"
    given, returned = (vars(module).get(f"{way}_features") for way in ("in", "out"))
    is_linear = type(given) is int and type(returned) is int
    features = (given, returned) if is_linear else (0, 0)
    numbers = {name: own for name, own in vars(module).items() if _is_whole(own)}
    if type(mode := vars(module).get("training")) is bool:
        numbers["training"] = mode
    return Attributes(path, settings, features, tuple(sizes), numbers)


def _is_whole(own: Any) -> bool:
    """True for a whole number, a tuple of these, and None."""
    each = own if type(own) is tuple else (own,)
    return all(type(one) is int or one is None for one in each)
