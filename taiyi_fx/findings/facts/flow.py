"""The ways between modules, as an outline of the model shows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from taiyi_fx.findings.facts.forwards import Forward


def _unknown(module: str) -> Sequence[str]:
    return ()


def _without_constants(module: str) -> Sequence[tuple[str, str]]:
    return ()


def _without_cuts(module: str, known: Collection[str]) -> Sequence[str]:
    return ()


def _none_known(module: str, known: Collection[str]) -> Collection[str]:
    return ()


def _unknown_shape(module: str) -> str:
    return ""


@dataclass(frozen=True)
class Flow:
    """All that comes before each module; of a model without an outline, nothing.

    The functions are asked of a module that is to be named alone, as each walks the outline.

    Attributes:
        before_module: Takes a module to the functions that make what it is given from what other
            modules return.
        inputs_before: Takes a module to the names of the model's inputs that it is given, as they
            are or through functions alone.
        constants_before: Takes a module to the functions, each with the name of what it takes, by
            which no value of it reaches the module, if there is no other way to it.
        cuts_behind: Takes a module, and the names of those at which the ways from it end, to the
            first functions on these that may pass no gradient back.
        modules_before: Takes a module, and the names of some, to the nearest of these on each way
            to what it is given; none if it is not known.
        shape_before: Takes a module to the shape of what it is given; empty if it is not known.
        forwards: The forward of each module of which an outline shows any calls.
        order: The names of modules in the order of execution, as far as an outline shows them.
        python: The reason for each forward that stayed Python, by the module's name.
    """

    before_module: Callable[[str], Sequence[str]] = _unknown
    inputs_before: Callable[[str], Sequence[str]] = _unknown
    constants_before: Callable[[str], Sequence[tuple[str, str]]] = _without_constants
    cuts_behind: Callable[[str, Collection[str]], Sequence[str]] = _without_cuts
    modules_before: Callable[[str, Collection[str]], Collection[str]] = _none_known
    shape_before: Callable[[str], str] = _unknown_shape
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    order: Sequence[str] = ()
    python: Mapping[str, str] = field(default_factory=dict)
