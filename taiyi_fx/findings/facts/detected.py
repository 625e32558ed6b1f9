"""Fields of what is known of a loss, each with the function that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any, TypeAlias

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.mistaken_axes import MistakenAxes
from taiyi_fx.findings.facts.softmaxes import described

Detector: TypeAlias = Callable[[Uses], Any]
"""Finds something in the functions that made a loss: a value, or several that it yields."""


def found_by(detect: Detector, default: Any = ()) -> Any:
    """A field of what is known of a loss: the function that finds it, and its value without it."""
    return field(default=default, metadata={"detect": detect})


def owners_of(find: Callable[[Uses], Iterable[Any]]) -> Detector:
    """The modules before the functions that are found."""
    return lambda uses: map(uses.owner, find(uses))


def axes_of(find: Callable[[Uses], Iterable[tuple[Any, ...]]]) -> Detector:
    """The functions that are found, each with two shapes."""
    return lambda uses: (MistakenAxes(uses.owner(x), *shapes) for x, *shapes in find(uses))


def softmaxes_of(find: Callable[[Uses], Iterable[Any]]) -> Detector:
    """The softmaxes that are found, each with its axis and the module before it."""
    return lambda uses: described(uses, find(uses))


def first_of(find: Callable[[Uses], Iterator[Any]]) -> Detector:
    """The first of what is found; None where nothing is."""
    return lambda uses: next(find(uses), None)


def of_number(find: Callable[[Any], Any]) -> Detector:
    """The answer of a function that is asked of the loss itself."""
    return lambda uses: find(uses.number)
