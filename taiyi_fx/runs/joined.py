"""A run that several writers made, each a part, read as one.

Modules of a part with a name have the name in front: ``stage1.fc``. Those of a rank keep their
names, as the stages of a pipeline are parts of one model; a series that an earlier rank has too,
such as the gradient's norm of each stage's own parameters, has the rank in front: ``rank1``, or
``rank1.fc``. Ids of series count through the parts in turn, so that they stay small, and stay as
they are while parts grow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings import Finding
from taiyi_fx.findings.told import Told
from taiyi_fx.outline import Outline
from taiyi_fx.outline.joined import joined
from taiyi_fx.records.imported import imported
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import Session, StoredSeries, to_text
from taiyi_fx.runs.source import Curve, EpochSpan, Points, RunSource, Slice, Span

if TYPE_CHECKING:
    import polars as pl

Name = tuple[str, int, str, str]
"""A series' module, call, quantity and mode, as files have them."""

T = TypeVar("T")
Id = TypeVar("Id", int, NDArray[np.int64])


class NamedSource(NamedTuple):
    """A part of a run.

    Attributes:
        label: The name that its modules are distinguished by.
        is_named: True if they always are.
        source: Its own numbers.
    """

    label: str
    is_named: bool
    source: RunSource


class JoinedSource:
    """The parts of a run, as one.

    Args:
        parts: They, in their order.
    """

    def __init__(self, parts: Sequence[NamedSource]) -> None:
        self._parts = parts

    def sessions(self) -> list[Session]:
        """The sessions that wrote the run: the first ones of all parts are one, and so on."""
        rows = [part.source.sessions() for part in self._parts]
        names = self._modules()
        return [_session(at_once, names) for at_once in zip_longest(*rows)]

    def series(self) -> list[StoredSeries]:
        """All series, part after part."""
        return [series for every in self._named() for series, _ in every]

    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all: part after part."""
        found = [
            points._replace(series=self._ids(points.series, place))
            for place, own in self._asked(series)
            for points in [self._parts[place].source.points(own)]
        ]
        whole = np.empty(0, np.int64)
        none = Points(whole, whole, whole, np.empty(0))
        return Points(*(np.concatenate(columns) for columns in zip(none, *found, strict=True)))

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those after an earlier slice's mark, slice by slice.

        Raises:
            Changed: The numbers before the mark are gone, or others.
        """
        marks: dict[str, tuple[Any, ...]] = dict(mark)
        for place, part in enumerate(self._parts):
            for found in part.source.slices(marks.get(part.label, ())):
                marks[part.label] = found.mark
                series = self._ids(found.series, place)
                yield found._replace(series=series, mark=tuple(marks.items()))

    def curve(self, series: int) -> Curve:
        """The numbers of a series by step."""
        source, own = self._of(series)
        return source.curve(own)

    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps, or at all."""
        source, own = self._of(series)
        return source.arrays(own, steps)

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors by step, for each series that has some."""
        return self._by_id(lambda source: source.shapes())

    def spans(self) -> dict[int, Span]:
        """The count of values of each series, with their first and last step."""
        return self._by_id(lambda source: source.spans())

    def events(self) -> list[Event]:
        """Warnings, and sites of NaN or Inf, by their steps."""
        pairs = zip(self._parts, self._modules(), strict=True)
        events = [
            event._replace(module=names.get(event.module, event.module))
            for part, names in pairs
            for event in part.source.events()
        ]
        return sorted(events, key=lambda event: event.step)

    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended, from the first step of any part to the last."""
        found: dict[int, list[EpochSpan]] = {}
        for part in self._parts:
            for epoch in part.source.epochs():
                found.setdefault(epoch.number, []).append(epoch)
        return [_epoch(spans) for spans in found.values()]

    def scan(self) -> pl.LazyFrame | None:
        """The long tables of all parts, unread; None where one cannot be."""
        frames = [part.source.scan() for part in self._parts]
        known = [frame for frame in frames if frame is not None]
        if len(known) < len(frames):
            return None
        polars = imported("polars")
        pairs = zip(known, self._named(), strict=True)
        return polars.concat([_with_names(frame, every) for frame, every in pairs])

    def told(self) -> list[Told]:
        """The findings of each part's monitor when it last looked."""
        pairs = zip(self._parts, self._modules(), strict=True)
        return [
            each._replace(findings=[_of_joined(one, names) for one in each.findings])
            for part, names in pairs
            for each in part.source.told()
        ]

    def outline(self) -> Outline | None:
        """The models of all parts as boxes of one; None if none was written yet."""
        found = [part.source.outline() for part in self._parts]
        labels = [part.label for part in self._parts]
        triples = zip(labels, found, self._modules(), strict=True)
        return joined([(label, own, names) for label, own, names in triples if own is not None])

    def close(self) -> None:
        """Closes the files that are open."""
        for part in self._parts:
            part.source.close()

    def _named(self) -> list[list[tuple[StoredSeries, StoredSeries]]]:
        """The series of each part: as the run has it, and as the part does."""
        taken: set[Name] = set()
        found = []
        for place, part in enumerate(self._parts):
            every = [
                (_renamed(s, self._ids(s.id, place), part, taken), s) for s in part.source.series()
            ]
            taken.update(_name(series) for series, _ in every)
            found.append(every)
        return found

    def _modules(self) -> list[dict[str, str]]:
        """For each part, other names of its modules, as records have them."""
        found = [
            {own.name: series.name for series, own in every if own.name != series.name}
            for every in self._named()
        ]
        for part, names in zip(self._parts, found, strict=True):
            if part.is_named:
                names.setdefault("", part.label)
        return found

    def _ids(self, own: Id, place: int) -> Id:
        """The ids in the run of series that a part has by its own."""
        return own * len(self._parts) + place

    def _of(self, series: int) -> tuple[RunSource, int]:
        own, place = divmod(series, len(self._parts))
        return self._parts[place].source, own

    def _asked(self, series: Sequence[int] | None) -> Iterator[tuple[int, list[int] | None]]:
        """The places of parts, each with the ids in it that are asked for."""
        count = len(self._parts)
        for place in range(count):
            if series is None:
                yield place, None
            elif own := [i // count for i in series if i % count == place]:
                yield place, own

    def _by_id(self, ask: Callable[[RunSource], Mapping[int, T]]) -> dict[int, T]:
        return {
            self._ids(i, place): value
            for place, part in enumerate(self._parts)
            for i, value in ask(part.source).items()
        }


def _with_names(
    frame: pl.LazyFrame, every: Sequence[tuple[StoredSeries, StoredSeries]]
) -> pl.LazyFrame:
    """A part's table with the run's ids of series and names of modules."""
    polars = imported("polars")
    own = polars.col("series")
    ids = {s.id: series.id for series, s in every}
    names = {s.id: series.module for series, s in every}
    return frame.with_columns(
        module=own.replace_strict(names, return_dtype=polars.String).cast(polars.Categorical),
        series=own.replace_strict(ids, return_dtype=polars.Int64),
    )


def _renamed(
    s: StoredSeries, number: int, part: NamedSource, taken: Collection[Name]
) -> StoredSeries:
    name = s.module
    if part.is_named or _name(s) in taken:
        name = ".".join(filter(None, (to_text(part.label), s.module)))
    return s._replace(id=number, module=name)


def _of_joined(one: Finding, names: Mapping[str, str]) -> Finding:
    """A finding of a part, with the names that its modules have in the run."""
    rest = tuple(_of_joined(each, names) for each in one.consequences)
    return replace(one, module=names.get(one.module, one.module), consequences=rest)


def _name(s: StoredSeries) -> Name:
    return s.module, s.call, s.quantity, s.mode


def _session(parts: Sequence[Session | None], names: Sequence[Mapping[str, str]]) -> Session:
    """One session of those that parts had at the same time."""
    there = [(own, of) for own, of in zip(parts, names, strict=True) if own is not None]
    first = there[0][0]
    entries = [
        {**entry, "module": of.get(entry.get("module", ""), entry.get("module", ""))}
        for own, of in there
        for entry in own.config
    ]
    return first._replace(
        start_step=min(own.start_step for own, _ in there),
        model=", ".join(dict.fromkeys(own.model for own, _ in there)),
        config=entries,
    )


def _epoch(spans: Iterable[EpochSpan]) -> EpochSpan:
    """One epoch of those of several parts."""
    spans = list(spans)
    firsts = [span.first for span in spans if span.first is not None]
    lasts = [span.last for span in spans if span.last is not None]
    return EpochSpan(spans[0].number, min(firsts, default=None), max(lasts, default=None))
