"""Iterators among values: what they gave is gone, and what they give next is the training's."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any


class CannotRepeat(Exception):
    """A call cannot be made again as it was; the message says why."""


def is_iterator(value: Any) -> bool:
    """True for an iterator, such as a generator; false for a file, which a log may be."""
    return isinstance(value, Iterator) and not isinstance(value, io.IOBase)


def check_repeatable(args: tuple[Any, ...], kwargs: Mapping[str, Any], of: str) -> None:
    """Refuses arguments that are iterators, or hold one.

    Args:
        args: The arguments by position.
        kwargs: Those by name.
        of: The name of what takes them.

    Raises:
        CannotRepeat: An argument is, or does.
    """
    named = [*((f"argument {i}", a) for i, a in enumerate(args)), *kwargs.items()]
    for name, value in named:
        if _holds_iterator(value):
            raise CannotRepeat(
                f"{name} of {of} is or holds an iterator, and what the step took of it is gone"
            )


def _holds_iterator(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        return any(map(_holds_iterator, value))
    return is_iterator(value)
