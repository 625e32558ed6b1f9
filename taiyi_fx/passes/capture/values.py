"""The values of the abstract interpreter: known by guards, made by a forward, or flowing."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

SIMPLE = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, type(...), range),
        *(torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Size),
    )
)
"""Types whose values cannot change, and whose operations run no code of the model."""

FIXED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    type,
)
"""Types of objects that are known by their identity."""


class Refused(Exception):
    """A forward that no graph can stand in for.

    Attributes:
        reason: The thing it does that a graph cannot hold, as a verb phrase.
        place: The file and line where it does.
        is_torchs: True if that is in a file of torch's own.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = ""
        self.is_torchs = False

    @classmethod
    def because_of(cls, error: Exception) -> Refused:
        """For an error that the forward itself would raise, or that our rules do not foresee."""
        return cls(f"cannot be followed: {type(error).__name__}: {error}")

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason


@dataclass(frozen=True, eq=False)
class Flow:
    """A value that flows: it can only be passed on.

    Attributes:
        node: The node that makes it; None where a forward is checked and not recorded.
        is_tensor: True if a guard says that it is a tensor.
    """

    node: fx.Node | None
    is_tensor: bool = False


@dataclass(frozen=True, eq=False)
class Known:
    """A known object: a constant, or one whose presence guards assert."""

    value: Any


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value; for a module's, with its function."""

    owner: Any
    name: str
    function: types.FunctionType | None = None


# Any: lists, tuples, dictionaries and slices that a forward makes are such objects themselves,
# with values in them.
Value = Any
NONE = Known(None)


def is_simple(value: Any) -> bool:
    """True if no operation on an object runs code of the model."""
    if type(value) is tuple:
        return all(map(is_simple, value))
    return type(value) in SIMPLE


def is_plain_container(value: Any) -> bool:
    """True if an object is a list or dictionary of plain ones."""
    if type(value) is dict:
        return all(is_simple(k) and is_simple(v) for k, v in value.items())
    return type(value) is list and all(map(is_simple, value))


def parts_of(value: Value) -> Iterator[Value]:
    """The values in a container that a forward made."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)


def flows(value: Value) -> bool:
    """True if anything in a value flows."""
    return isinstance(value, Flow) or any(map(flows, parts_of(value)))


def known(value: Value, what: str) -> Any:
    """The object of a known value.

    Raises:
        Refused: It flows.
    """
    if isinstance(value, Known):
        return value.value
    if isinstance(value, (list, tuple, dict, slice)):
        return _mapped(value, lambda part: known(part, what))
    kind = "what flows in" if isinstance(value, Flow) else f"a {type(value).__name__.lower()}"
    raise Refused(f"{what} {kind}")


def known_simple(value: Value, what: str) -> Any:
    """The plain object of a known value.

    Raises:
        Refused: It flows, or its operations may run code of the model.
    """
    found = known(value, what)
    if is_simple(found) or is_plain_container(found) or type(found) is slice:
        return found
    raise Refused(f"{what} a {type(found).__name__}")


def argument(value: Value) -> Any:
    """A value as a node's argument: nodes, and constants that generated code can write.

    Raises:
        Refused: It holds an object that code cannot write.
    """
    if isinstance(value, Flow):
        return value.node
    if isinstance(value, Known):
        if is_simple(value.value) and type(value.value) not in (torch.Size, range):
            return value.value
        if is_plain_container(value.value):
            return _mapped(value.value, lambda part: part)
        if type(value.value) is torch.Size:
            return tuple(value.value)
        raise Refused(f"passes on a {type(value.value).__name__}, which a graph cannot hold")
    if isinstance(value, (list, tuple, dict, slice)):
        return _mapped(value, argument)
    raise Refused("passes on a method, which a graph cannot hold")


def lifted(structure: Any) -> Value:
    """A structure of nodes and constants as a value."""
    if isinstance(structure, fx.Node):
        return Flow(structure)
    if isinstance(structure, (list, tuple, dict, slice)):
        return _mapped(structure, lifted)
    return Known(structure)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: change(part) for key, part in value.items()}
    parts = [change(part) for part in parts_of(value)]
    if isinstance(value, slice):
        return slice(*parts)
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
