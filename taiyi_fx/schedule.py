"""Schedules: the steps at which a quantity is due, as frozen objects and as texts."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

FORMS = (
    '"linear(interval, offset)", "every(n)", "adaptive(interval, dense)" or "at_steps(s1, s2, ...)"'
)

NEVER = range(0)
AFTER_ALL = sys.maxsize
"""In place of a step where none follows."""
_GOLDEN = 2654435769
"""The golden ratio's fraction, in units of 2 to the -32."""


@runtime_checkable
class Schedule(Protocol):
    """The steps at which something is due: any hashable object with this method."""

    def is_due(self, step: int) -> bool:
        """True if the step is one of them."""
        ...


@dataclass(frozen=True)
class Linear:
    """Due at ``offset``, ``offset + interval``, ...; an interval of 0 means every step."""

    interval: int
    offset: int = 0

    def __post_init__(self) -> None:
        for name, value in (("interval", self.interval), ("offset", self.offset)):
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, not {value!r}")

    def is_due(self, step: int) -> bool:
        """True if the step is one of them."""
        return step >= self.offset and (step - self.offset) % (self.interval or 1) == 0

    def next_due(self, step: int) -> int:
        """The first of them that is not before a step."""
        return max(step + (self.offset - step) % (self.interval or 1), self.offset)

    def __str__(self) -> str:
        return f"linear({self.interval}, {self.offset})"


@dataclass(frozen=True)
class AtSteps:
    """Due at exactly these steps."""

    steps: frozenset[int]

    def is_due(self, step: int) -> bool:
        """True if the step is one of them."""
        return step in self.steps

    def next_due(self, step: int) -> int:
        """The first of them that is not before a step; `AFTER_ALL` if there is none."""
        return min((s for s in self.steps if s >= step), default=AFTER_ALL)

    def __str__(self) -> str:
        return f"at_steps({', '.join(map(str, sorted(self.steps)))})"


@dataclass(frozen=True)
class Adaptive:
    """Due at each of the first ``dense`` steps, then at ever fewer, at last one in ``interval``.

    From step ``dense`` on it is due at one in 2, from ``2 * dense`` on at one in 4, and so on:
    which one differs, so that what happens at every second or hundredth step alone, as a turn of
    another task, is seen as often as anything else. A monitor's `raise_cadence` makes it due at
    each step again, for a while.
    """

    interval: int
    dense: int

    def __post_init__(self) -> None:
        for name, value in (("interval", self.interval), ("dense", self.dense)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"adaptive({name}=) takes a whole number of at least 1, not {value!r}"
                )

    def is_due(self, step: int) -> bool:
        """True if the step is one of them, without any cadence that was raised."""
        gap = min(1 << (step // self.dense).bit_length(), self.interval)
        return step % gap == _place(step // gap, gap)

    def next_due(self, step: int) -> int:
        """The first of them that is not before a step, without any cadence that was raised."""
        while not self.is_due(step):
            doublings = (step // self.dense).bit_length()
            gap = min(1 << doublings, self.interval)
            block, place = divmod(step, gap)
            due = _place(block, gap)
            following = block * gap + due if place < due else (block + 1) * gap
            step = min(following, self.dense << doublings)
        return step

    def __str__(self) -> str:
        return f"adaptive({self.interval}, {self.dense})"


def _place(block: int, gap: int) -> int:
    """The step of a block of so many that is due: multiples of the golden ratio fill all places."""
    return (block * _GOLDEN % 2**32) * gap >> 32


def linear(interval: int, offset: int = 0) -> Linear:
    """A schedule due at ``offset``, ``offset + interval``, ...; ``linear(0, 0)`` is every step.

    Raises:
        ValueError: A number is negative or not whole.
    """
    return Linear(interval, offset)


def every(n: int) -> Linear:
    """A schedule due at steps 0, n, 2n, ...

    Raises:
        ValueError: ``n`` is below 1 or not whole.
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"every(n) needs a whole number of at least 1, not {n!r}")
    return Linear(n, 0)


def adaptive(interval: int, dense: int = 20) -> Adaptive:
    """A schedule due at each of the first ``dense`` steps, then rarer, to one in ``interval``.

    Between, it is one in 2 from step ``dense`` on, one in 4 from ``2 * dense`` on, and so on. Which
    one differs, always in the same way, so that it never keeps time with what a training does at
    every second or hundredth step. `Monitor.raise_cadence` makes it due at each step again, for a
    while.

    Raises:
        ValueError: A number is below 1 or not whole.
    """
    return Adaptive(interval, dense)


def at_steps(*steps: int) -> AtSteps:
    """A schedule due at the given steps only.

    Raises:
        ValueError: No step was given, or one is negative or not whole.
    """
    if not steps or any(not isinstance(s, int) or s < 0 for s in steps):
        raise ValueError(f"at_steps needs steps, whole numbers of at least 0, not {steps!r}")
    return AtSteps(frozenset(steps))


def whole(name: str, number: Any) -> int:
    """A whole number as Python's own: numpy's, a tensor's, and floats without a fraction too.

    Raises:
        TypeError: It is not a whole number.
    """
    try:
        is_whole_float = isinstance(number, float) and number.is_integer()
        return int(number) if is_whole_float else operator.index(cast(Any, number))
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {number!r}") from None


def check_step(name: str, step: object) -> None:
    """Checks the number of a step.

    Raises:
        ValueError: It is negative or not whole.
    """
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"{name} is a whole number of at least 0, not {step!r}")


_PARSERS = {"linear": linear, "every": every, "adaptive": adaptive, "at_steps": at_steps}


def parse_schedule(text: str) -> Schedule:
    """The schedule that a text such as ``"linear(5, 0)"`` describes.

    Raises:
        ValueError: The text is none of the allowed forms.
    """
    match = re.fullmatch(r"\s*(\w+)\s*\(([\d\s,]*)\)\s*", text)
    numbers = [part.strip() for part in match[2].split(",")] if match else []
    if not match or match[1] not in _PARSERS or not all(n.isdigit() for n in numbers):
        raise ValueError(f"{text!r} is not a schedule; allowed are {FORMS}, with whole numbers")
    try:
        return _PARSERS[match[1]](*map(int, numbers))
    except TypeError:
        count = len(numbers)
        message = f"{text!r} has {count} number{'s' if count != 1 else ''}; allowed are {FORMS}"
        raise ValueError(message) from None


def is_any_due(schedules: Iterable[Schedule], step: int, raised: range = NEVER) -> bool:
    """True if a step is due on at least one of the schedules.

    Args:
        schedules: The schedules.
        step: The step.
        raised: Steps at which every adaptive schedule is due.
    """
    is_raised = step in raised
    return any(s.is_due(step) or (is_raised and isinstance(s, Adaptive)) for s in schedules)


def next_due(schedules: Iterable[Schedule], step: int, raised: range = NEVER) -> int:
    """The first step, from one on, at which one of the schedules may be due.

    One of the user's own is asked at each step.

    Args:
        schedules: The schedules.
        step: The step to begin with.
        raised: Steps at which every adaptive schedule is due.
    """
    found = AFTER_ALL
    for schedule in schedules:
        # A derived class may be due at other steps.
        is_ours = type(schedule) in (Linear, AtSteps, Adaptive) and step >= 0
        found = min(found, cast(Any, schedule).next_due(step) if is_ours else step)
        if isinstance(schedule, Adaptive) and step < raised.stop:
            found = min(found, max(step, raised.start))
    return found


def is_always_due(schedules: Iterable[Schedule], step: int) -> bool:
    """True if one of the schedules is known to be due at a step and at each one after it."""
    return any(type(s) is Linear and s.interval <= 1 and s.offset <= step for s in schedules)


def has_adaptive(every: Iterable[Iterable[Schedule]]) -> bool:
    """True if one of some groups of schedules has an adaptive one."""
    return any(isinstance(s, Adaptive) for schedules in every for s in schedules)


def last_due(schedules: Iterable[Schedule]) -> int | None:
    """The last step at which one of the schedules is due; None where that is not known."""
    lasts = [max(s.steps) if isinstance(s, AtSteps) else None for s in schedules]
    return None if None in lasts else max(last for last in lasts if last is not None)
