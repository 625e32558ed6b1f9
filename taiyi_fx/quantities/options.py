"""Options of quantities: checks of their values against annotations."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin


@dataclass(frozen=True)
class Range:
    """Bounds of a numeric option, for its annotation: ``Annotated[float, Range(0, 1)]``."""

    low: float
    below: float

    def __contains__(self, value: Any) -> bool:
        return self.low <= value < self.below

    def __str__(self) -> str:
        return f"of at least {self.low} and below {self.below}"


def check_type(owner: str, option: inspect.Parameter, value: Any) -> None:
    """Checks a value against its option's annotation.

    Raises:
        ValueError: It is not allowed; the message says which values are.
    """
    annotation = option.annotation
    if annotation is inspect.Parameter.empty or _matches(value, annotation):
        return
    allowed = described(annotation)
    raise ValueError(f"{owner}: option {option.name!r} must be {allowed}, not {value!r}")


def _matches(value: Any, annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        kind, *bounds = get_args(annotation)
        return _matches(value, kind) and all(value in bound for bound in bounds)
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    members = get_args(annotation)
    if get_origin(annotation) is tuple:
        return isinstance(value, tuple) and all(_matches(part, members[0]) for part in value)
    if members and not isinstance(annotation, type):
        return any(_matches(value, member) for member in members)
    if annotation in (None, type(None)):
        return value is None
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return annotation is Any or isinstance(value, typing.get_origin(annotation) or annotation)


def described(annotation: Any) -> str:
    """The values that an annotation allows, in words."""
    if get_origin(annotation) is Annotated:
        kind, *bounds = get_args(annotation)
        return " ".join([described(kind), *map(str, bounds)])
    if get_origin(annotation) is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    members = get_args(annotation)
    if get_origin(annotation) is tuple:
        return f"several of {described(members[0])}"
    if members and not isinstance(annotation, type):
        return " or ".join(described(member) for member in members)
    if annotation in (None, type(None)):
        return "None"
    return {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}.get(
        annotation, str(annotation)
    )
