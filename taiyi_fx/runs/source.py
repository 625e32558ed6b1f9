"""What a run is read from, whatever format it has on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import Session, Stored


class Points(NamedTuple):
    """Numbers in the order of their making, as columns.

    Attributes:
        step: int64.
        epoch: int64.
        series: int64, as `Stored.id`.
        value: float64.
    """

    step: NDArray[np.int64]
    epoch: NDArray[np.int64]
    series: NDArray[np.int64]
    value: NDArray[np.float64]


class Slice(NamedTuple):
    """A stretch of all numbers, in the order of their making.

    Attributes:
        series: int64, as `Stored.id`.
        step: int64.
        value: float64.
        mark: Where it ends, to go on from there; of a format's own.
    """

    series: NDArray[np.int64]
    step: NDArray[np.int64]
    value: NDArray[np.float64]
    mark: tuple[Any, ...]


class Changed(Exception):
    """What was read before is no longer there: the run was resumed from a step before its end."""


class Curve(NamedTuple):
    """The numbers of one series.

    Attributes:
        steps: Ascending, int64; one may be there twice, as records have it.
        values: float64; or where all are integers int64, or Python's if that is too narrow.
    """

    steps: NDArray[np.int64]
    values: NDArray[Any]


class EpochSpan(NamedTuple):
    """The numbers of an epoch that ended.

    Attributes:
        number: The epoch's.
        first: The first step of a number in it; None if it has none.
        last: The last.
    """

    number: int
    first: int | None
    last: int | None


class Span(NamedTuple):
    """What there is of a series."""

    numbers: int
    first: int
    last: int


def merged(spans: Iterable[tuple[int, Span]]) -> dict[int, Span]:
    """One span of each series: a run that was resumed may have numbers and tensors of one."""
    found: dict[int, Span] = {}
    for series, span in spans:
        other = found.get(series, Span(0, span.first, span.last))
        found[series] = Span(
            span.numbers + other.numbers,
            min(span.first, other.first),
            max(span.last, other.last),
        )
    return found


class Source(Protocol):
    """Reads what is there at the time: a run may still be written to."""

    def sessions(self) -> list[Session]:
        """The processes that wrote, in their order."""
        ...

    def series(self) -> list[Stored]:
        """All series, by their ids."""
        ...

    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        ...

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those made after an earlier slice's mark, some at a time.

        Raises:
            Changed: What was there at the mark is not there any more.
        """
        ...

    def curve(self, series: int) -> Curve:
        """The numbers of a series; of a step in the order of their making."""
        ...

    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """A series' tensors by step, of some steps or of all; of several the last."""
        ...

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """Of each series with tensors their shapes by step."""
        ...

    def spans(self) -> dict[int, Span]:
        """How many numbers or tensors each series has, and from which step to which."""
        ...

    def events(self) -> list[Event]:
        """What was told."""
        ...

    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        ...

    def outline(self) -> Outline | None:
        """The model as boxes within boxes; None if it was not written yet."""
        ...

    def close(self) -> None:
        """Gives back what reading holds."""
        ...


FLAGS = ["", "NaN", "+Inf", "-Inf"]
"""What is told of a number that is not finite."""


def flags(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """The place of each number's flag in `FLAGS`."""
    found = np.isnan(values).astype(np.intp)
    found[values == np.inf] = 2
    found[values == -np.inf] = 3
    return found
