"""The protocol of a run's format, and the values that it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.told import Told
from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import Session, StoredSeries

if TYPE_CHECKING:
    import polars as pl


class Points(NamedTuple):
    """Numbers as columns, in the order in which they were made.

    Attributes:
        step: int64.
        epoch: int64.
        series: int64, as `StoredSeries.id`.
        value: float64.
    """

    step: NDArray[np.int64]
    epoch: NDArray[np.int64]
    series: NDArray[np.int64]
    value: NDArray[np.float64]


class Slice(NamedTuple):
    """Some of all numbers, in the order in which they were made.

    Attributes:
        series: int64, as `StoredSeries.id`.
        step: int64.
        value: float64.
        mark: The place of its end, from which the next slice goes on; opaque to readers.
    """

    series: NDArray[np.int64]
    step: NDArray[np.int64]
    value: NDArray[np.float64]
    mark: tuple[Any, ...]


class Changed(Exception):
    """Numbers that were read no longer exist: the run was resumed before its end."""


class Curve(NamedTuple):
    """The numbers of one series.

    Attributes:
        steps: Ascending, int64; one may be there twice, as records have it.
        values: float64; or where all are integers int64, or Python's if that is too narrow.
    """

    steps: NDArray[np.int64]
    values: NDArray[Any]


class EpochSpan(NamedTuple):
    """The steps of an epoch that ended.

    Attributes:
        number: The epoch's.
        first: The first step of a number in it; None if it has none.
        last: The last.
    """

    number: int
    first: int | None
    last: int | None


class Span(NamedTuple):
    """The count of values in a series, with their first and last step."""

    numbers: int
    first: int
    last: int


def merge_spans(spans: Iterable[tuple[int, Span]]) -> dict[int, Span]:
    """One span for each series, whose numbers and tensors were counted apart."""
    found: dict[int, Span] = {}
    for series, span in spans:
        other = found.get(series, Span(0, span.first, span.last))
        found[series] = Span(
            span.numbers + other.numbers,
            min(span.first, other.first),
            max(span.last, other.last),
        )
    return found


class RunSource(Protocol):
    """A run opened for reading. It may still be written to: each call sees the latest."""

    def sessions(self) -> list[Session]:
        """The sessions that wrote the run, in their order."""
        ...

    def series(self) -> list[StoredSeries]:
        """All series, in the order in which they were made, or part after part."""
        ...

    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        ...

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those after an earlier slice's mark, slice by slice.

        Raises:
            Changed: The numbers before the mark are gone, or others.
        """
        ...

    def curve(self, series: int) -> Curve:
        """The numbers of a series by step; several at one step in the order they were made."""
        ...

    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps, or at all; of several at one step the last."""
        ...

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors by step, for each series that has some."""
        ...

    def spans(self) -> dict[int, Span]:
        """The count of values of each series, with their first and last step."""
        ...

    def events(self) -> list[Event]:
        """Warnings, and sites of NaN or Inf."""
        ...

    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        ...

    def scan(self) -> pl.LazyFrame | None:
        """The long table of all numbers, unread; None where the format cannot be read in parts.

        Raises:
            ImportError: polars is not installed.
        """
        ...

    def told(self) -> list[Told]:
        """The findings of the monitor when it last looked; of several, those of each.

        Of one that has not found anything yet, and has not ended, that it has looked at no step.
        """
        ...

    def outline(self) -> Outline | None:
        """The model as boxes within boxes; None if it was not written yet."""
        ...

    def close(self) -> None:
        """Closes the files that are open."""
        ...


COLUMNS = [
    "step", "epoch", "module", "call", "quantity", "mode", "direction", "unit", "value", "flag",
]  # fmt: skip
"""The columns of the long table."""

FLAGS = ["", "NaN", "+Inf", "-Inf"]
"""The flags of numbers; empty for a finite one."""


def flags(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """The index of each number's flag in `FLAGS`."""
    found = np.isnan(values).astype(np.intp)
    found[values == np.inf] = 2
    found[values == -np.inf] = 3
    return found
