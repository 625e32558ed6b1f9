"""Sizes of operations' numbers in two steps: the first operation that left its usual size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taiyi_fx.recorder.replay.facts import TensorFacts
from taiyi_fx.recorder.replay.places import Place

FACTOR = 100.0
"""So many times its size in the step before is beyond what is usual."""

_CALM = 10.0
"""Inputs that grew by no more than this did not bring it."""


@dataclass(frozen=True)
class Size:
    """The sizes of an operation's numbers.

    Attributes:
        operation: Its name.
        place: Its place.
        inputs: The facts about its inputs.
        outputs: The facts about its outputs.
    """

    operation: str
    place: Place
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]


@dataclass(frozen=True)
class Growth:
    """An operation whose output is far larger than usual, and its inputs are not.

    Attributes:
        at: The operation.
        factor: The size of its output, as a multiple of that in the step before.
    """

    at: Size
    factor: float


def first_growth(usual: Sequence[Size], now: Sequence[Size]) -> Growth | None:
    """The first operation that left its usual size by itself, of two steps of one model.

    Steps are compared as long as they run the same operations.
    """
    for before, after in zip(usual, now, strict=False):
        if (before.operation, before.place) != (after.operation, after.place):
            return None
        grown = _ratio(before.outputs, after.outputs)
        if grown > FACTOR and _ratio(before.inputs, after.inputs) <= _CALM:
            return Growth(after, grown)
    return None


def _ratio(before: Sequence[TensorFacts], after: Sequence[TensorFacts]) -> float:
    """The largest growth of a tensor; 1 for those that were all zeros, which have no size."""
    pairs = zip(map(_size, before), map(_size, after), strict=False)
    return max((b / a for a, b in pairs if a), default=1.0)


def _size(facts: TensorFacts) -> float:
    return max(abs(facts.smallest or 0.0), abs(facts.largest or 0.0))
