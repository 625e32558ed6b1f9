"""Sizes of operations' numbers in several steps: the first operation that left its usual size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from taiyi_fx.recorder.replay.facts import TensorFacts
from taiyi_fx.recorder.replay.places import Place


@dataclass(frozen=True)
class Band:
    """The steps that a step's numbers are compared with, and what is usual.

    Attributes:
        back: So many steps before it are compared, where they are kept.
        factor: So many times the size that it had when it last ran is beyond what is usual.
    """

    back: int
    factor: float

    @property
    def calm(self) -> float:
        """Numbers that grew by no more than this are as usual."""
        return math.sqrt(self.factor)


OF_ALERTS = Band(20, 100.0)
"""What found it may not have looked at the step itself: presets read ever fewer steps."""

OF_SUSPECTS = Band(3, 10.0)
"""A step whose loss or whose batch stood out: near it, and closer, is enough."""


@dataclass(frozen=True)
class Size:
    """The sizes of an operation's numbers.

    Attributes:
        operation: Its name.
        place: Its place.
        inputs: The facts about its inputs.
        outputs: The facts about its outputs.
        makers: For each input the number of the operation of the step that wrote it last; None if
            it came from outside.
    """

    operation: str
    place: Place
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    makers: tuple[int | None, ...]


@dataclass(frozen=True)
class Growth:
    """An operation that brought numbers far larger than usual.

    Attributes:
        at: The operation.
        factor: The size of its output, as a multiple of that when it last ran; of an operation that
            is new, the same of the first operation behind it that is not.
        is_new: True if it ran in no step before.
    """

    at: Size
    factor: float
    is_new: bool = False


_Known: TypeAlias = tuple[str, Place, int, int]
"""What an operation is known by: name and place, and how many tensors it took and gave."""


class _Kind(Enum):
    """The relation of an operation's output to that of when it last ran.

    `GROWN` and `FROM_OUTSIDE` are larger: by what the step did, or by what it was given. `NEW` is
    of an operation that ran in no step before.
    """

    USUAL = auto()
    GROWN = auto()
    FROM_OUTSIDE = auto()
    NEW = auto()


def latest_growth(
    steps: Sequence[Sequence[Size]], band: Band = OF_ALERTS
) -> tuple[int, Growth] | None:
    """The last step in which an operation left its usual size by itself, and the first that did.

    Args:
        steps: The sizes of steps of one model, one after another. They may run different
            operations: each is compared with the latest step before that ran it, too.
        band: What is usual.
    """
    usual: dict[_Known, list[Size]] = {}
    latest = None
    for i, sizes in enumerate(steps):
        now: dict[_Known, list[Size]] = {}
        pairs = [(_usual(size, usual, now), size) for size in sizes]
        found = _first_growth(pairs, band)
        latest = latest if found is None else (i, found)
        usual |= now
    return latest


def _usual(
    size: Size, usual: Mapping[_Known, Sequence[Size]], now: dict[_Known, list[Size]]
) -> Size | None:
    """The size of the same operation in a step before, or of its last run there, if it had fewer.

    Args:
        size: The operation's size now.
        usual: Those of steps before, in order.
        now: Those of this step so far, which this one joins.
    """
    known = size.operation, size.place, len(size.inputs), len(size.outputs)
    runs = now.setdefault(known, [])
    runs.append(size)
    before = usual.get(known, ())
    return before[min(len(runs), len(before)) - 1] if before else None


# A step may take another way than those before it: a branch for a rare batch, a loop that runs once
# more. So growth is followed through the operations that computed a number. Where it was given
# larger inputs from outside, such as a parameter, no operation of the step did it. Where larger
# inputs came of operations that are new, one of these did. Where those that made them are as usual,
# an operation between is missing, and this is the first whose numbers are not as they were.
def _first_growth(pairs: Sequence[tuple[Size | None, Size]], band: Band) -> Growth | None:
    kinds: list[_Kind] = []
    for before, after in pairs:
        kind = _kind(before, after, kinds, band.calm)
        kinds.append(kind)
        if before is None or kind is not _Kind.GROWN:
            continue
        factor = _ratio(before.outputs, after.outputs)
        if factor > band.factor:
            new = [
                m
                for m in _grown(before, after, band.calm)
                if m is not None and kinds[m] is _Kind.NEW
            ]
            if new:
                sizes = [size for _, size in pairs]
                return Growth(_largest_gain(new[0], sizes, kinds), factor, is_new=True)
            return Growth(after, factor)
    return None


def _kind(before: Size | None, after: Size, kinds: Sequence[_Kind], calm: float) -> _Kind:
    if before is None:
        is_given = any(m is not None and kinds[m] is _Kind.FROM_OUTSIDE for m in after.makers)
        return _Kind.FROM_OUTSIDE if is_given else _Kind.NEW
    if _ratio(before.outputs, after.outputs) <= calm:
        return _Kind.USUAL
    makers = _grown(before, after, calm)
    is_given = any(m is None or kinds[m] is _Kind.FROM_OUTSIDE for m in makers)
    return _Kind.FROM_OUTSIDE if is_given else _Kind.GROWN


def _grown(before: Size, after: Size, calm: float) -> list[int | None]:
    """The makers of the inputs that are larger than usual."""
    triples = zip(before.inputs, after.inputs, after.makers, strict=False)
    return [maker for a, b, maker in triples if _ratio([a], [b]) > calm]


def _largest_gain(at: int, now: Sequence[Size], kinds: Sequence[_Kind]) -> Size:
    """Of the new operations that led to one, along the largest inputs, that with most gain."""
    found, most = now[at], -1.0
    while True:
        size = now[at]
        inputs = [*zip(map(size_of, size.inputs), size.makers, strict=True)]
        largest, maker = max(inputs, key=lambda one: one[0], default=(0.0, None))
        gain = max(map(size_of, size.outputs), default=0.0) / (largest or 1.0)
        if gain > most:
            found, most = size, gain
        if maker is None or kinds[maker] is not _Kind.NEW:
            return found
        at = maker


def _ratio(before: Sequence[TensorFacts], after: Sequence[TensorFacts]) -> float:
    """The largest growth of a tensor; 1 for those that were all zeros, which have no size."""
    pairs = zip(map(size_of, before), map(size_of, after), strict=False)
    return max((b / a for a, b in pairs if a), default=1.0)


def size_of(facts: TensorFacts) -> float:
    """The largest magnitude of its finite elements."""
    return max(abs(facts.smallest or 0.0), abs(facts.largest or 0.0))
