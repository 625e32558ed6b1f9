"""Differences between a run and the plain model's first run, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taiyi_fx.snapshot.bitwise import differences

Phase = Mapping[str, Any]
"""The results of a phase, by path."""


@dataclass(frozen=True)
class Difference:
    """One difference from the plain model's first run.

    Attributes:
        path: The path of the thing that differs.
        position: The number of the phase, and the place within it.
        where: The phase, in words.
        how: The difference, in words.
        has_raised: True if the run ended there.
    """

    path: str
    position: tuple[int, int]
    where: str
    how: str
    has_raised: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.where}: {self.how}"


def found_in(
    expected: Sequence[Phase], found: Iterator[Phase], names: Sequence[str], suffix: str = ""
) -> Iterator[Difference]:
    """All differences of another run from the plain model's first one, in order.

    Args:
        expected: The results of each phase of the plain model.
        found: Those of the other run, phase by phase as it runs.
        names: The names of the phases.
        suffix: A note on the other run, for the texts.
    """
    for i, (name, phase) in enumerate(zip(names, expected, strict=True)):
        try:
            other = next(found)
        except Exception as error:  # noqa: BLE001 - what only one of two runs raises is a difference
            how = f"raised {type(error).__name__}: {error}"
            yield Difference("the model", (i, -1), f"in {name}{suffix}", how, has_raised=True)
            return
        order = {path: place for place, path in enumerate(phase)}
        for path, how in differences(phase, other):
            position = i, order.get(path, len(order))
            yield Difference(path, position, f"{_preposition(path)} {name}{suffix}", how)


def _preposition(path: str) -> str:
    is_left = path.removeprefix("strides of ").startswith(
        ("buffer", "parameter", "attribute", "random", "input")
    )
    return "after" if is_left else "in"
