"""What a sound training is, how a function is registered as one, and looks at it as it goes on."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from taiyi_fx import Finding, Monitor

Loop = Callable[..., Iterator[Monitor]]
"""A training under watch, which yields its monitor after each step."""

LOOKS = (5, 10, 20, 50, 100, 200, 400)
"""The counts of steps after which one looks; a last look comes at the end."""


@dataclass(frozen=True)
class Sound:
    """A sound training with a loop of its own.

    Attributes:
        name: That of its function.
        loop: The function.
        options: Its keywords.
        seed: What all random numbers begin from.
    """

    name: str
    loop: Loop
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 1

    part = "sound"

    @property
    def label(self) -> str:
        """The name and the options, which together are no other's."""
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({options})"


@dataclass(frozen=True)
class Look:
    """What one look found.

    Attributes:
        steps: The count of steps so far.
        findings: All of them.
    """

    steps: int
    findings: Sequence[Finding]


SOUND: list[Sound] = []
"""Those that were registered."""


def sound(*options: dict[str, Any]) -> Callable[[Loop], Loop]:
    """Registers a function that trains under watch.

    Args:
        options: Keywords of the function, for each of which it is a training of its own; without
            any it is one, as its defaults say.
    """

    def register(loop: Loop) -> Loop:
        SOUND.extend(Sound(loop.__name__, loop, each) for each in options or ({},))
        return loop

    return register


def looks(case: Sound) -> list[Look]:
    """Trains to the end, and gives what looks on the way and at the end found."""
    random.seed(case.seed)
    torch.manual_seed(case.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the monitor's are in its findings; libraries have theirs
        return list(_looks(case.loop(**case.options)))


def _looks(loop: Iterator[Monitor]) -> Iterator[Look]:
    count, monitor = 0, None
    for count, monitor in enumerate(loop, 1):
        if count in LOOKS:
            yield Look(count, monitor.findings)
    assert monitor is not None, "no step"
    if count not in LOOKS:
        yield Look(count, monitor.findings)
    monitor.close()
