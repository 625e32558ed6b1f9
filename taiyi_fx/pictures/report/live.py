"""A live run: the header and the chunks of a run that is still being written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taiyi_fx.outline.items import Outline
from taiyi_fx.pictures.report.chunks import Chunk, numbers_chunk, tensors_chunk, width_for
from taiyi_fx.pictures.report.contents import (
    NUMBERS_BUDGET,
    TENSORS_BUDGET,
    chooser,
    entry_of,
    in_order,
    kept_steps,
    named,
)
from taiyi_fx.pictures.report.finding_entries import Seen, seen_in
from taiyi_fx.pictures.report.gathered import Gathered, Group
from taiyi_fx.pictures.report.header import (
    at_first,
    header,
    numbers_entries,
    run_entry,
    tensors_entry,
)
from taiyi_fx.pictures.report.readout import About, RunReadout
from taiyi_fx.pictures.report.recorded import RecordedSeries
from taiyi_fx.pictures.report.thin import Thinning
from taiyi_fx.runs.opening import open_run
from taiyi_fx.runs.recording import stamps_in
from taiyi_fx.runs.run import Run

_POLL_MS = 2000
_REST = 4
"""The smallest polling interval, as a multiple of the time to make a header."""

_RECORDED = 2**40
"""The first id of chunks that recordings have; that of a page's other chunks stays far below."""

_NOTHING = run_entry("", About("", {}, [], [], [], None), [], [], 0)


class LiveRun:
    """A run on disk that is read again for each request; numbers read before stay in memory.

    Ids of chunks never change, however many are added: for numbers, twice the id of the first
    series with that quantity and mode; for vectors, twice the id of their series plus one. The
    last steps that a recorder wrote have ids of their own, above all others.

    Args:
        path: The run's folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._lock = threading.Lock()
        self._gathered, self._recorded = Gathered(), Gathered()
        self._recordings: tuple[Any, RecordedSeries] = (), RecordedSeries([])
        self._entries: dict[tuple[int, int, int], tuple[int, list[dict[str, Any]]]] = {}
        self._known: tuple[dict[str, Any], Outline | None] = ({**_NOTHING, "name": self.name}, None)
        self._thinning = 0, Thinning()
        self._seen: tuple[tuple[Any, ...], Seen] = (), Seen()
        self._seconds = 0.0

    @property
    def name(self) -> str:
        """The run's name."""
        return self._path.name

    def header(self) -> dict[str, Any]:
        """The current header; or the last one with the problem, if the run cannot be read."""
        problem = ""
        with self._lock:
            try:
                with self._read() as (run, readout):
                    begun = time.monotonic()
                    self._known = self._entry(run, readout)
                    self._seconds = time.monotonic() - begun
            except (OSError, ValueError, ImportError) as error:
                problem = str(error)
            entry, outline = self._known
        poll = max(_POLL_MS, round(_REST * 1000 * self._seconds))
        live = {"poll_ms": poll, "problem": problem}
        return header(self.name, [entry], at_first(outline, entry), live)

    def chunk(self, number: int, after: int | None = None) -> Chunk | None:
        """A chunk, whole, or only the steps after one without downsampling; None if there is none.

        Raises:
            OSError: The run cannot be read.
            ValueError: It is damaged.
        """
        is_recorded, number = divmod(number, _RECORDED)
        series, is_vectors = divmod(number, 2)
        with self._lock, self._read() as (_, readout):
            if is_vectors:
                return None if is_recorded else self._vectors(readout, series, after)
            gathered = self._recorded if is_recorded else self._gathered
            return self._numbers(readout, gathered, series, after)

    @contextmanager
    def _read(self) -> Iterator[tuple[Run, RunReadout]]:
        with open_run(self._path) as run:
            readout = RunReadout(run)
            self._gathered.update(readout, (type(run.source), run.sessions))
            self._update_recorded(run)
            yield run, readout

    def _update_recorded(self, run: Run) -> None:
        """Reads the recordings again, if there are others."""
        stamps = stamps_in(run.path)
        if stamps != self._recordings[0]:
            self._recordings = stamps, RecordedSeries(run.recordings)
        self._recorded.update(self._recordings[1], stamps)

    def _entry(self, run: Run, readout: RunReadout) -> tuple[dict[str, Any], Outline | None]:
        about = readout.about()
        events = [*about.events, *self._recordings[1].about().events]
        about = about._replace(events=events)
        series: list[dict[str, Any]] = []
        chunks: list[dict[str, Any]] = []
        for gathered, group in self._groups:
            entries = self._series_entries(gathered, group, about.outline)
            series += ({**one, "chunk": len(chunks)} for one in entries)
            chunks.append(self._entry_of(gathered, group))
        shapes = readout.shapes()
        kept = self._kept(readout, shapes)
        for i in kept:
            steps = list(shapes[i])
            series.append(tensors_entry(self._gathered.series[i], steps, len(chunks)))
            chunks.append(self._entry_of_vectors(i, steps))
        left_out = len(shapes) - len(kept)
        entry = run_entry(self.name, about, series, chunks, left_out, self._see(about))
        return entry, about.outline

    def _kept(
        self, readout: RunReadout, shapes: Mapping[int, Mapping[int, tuple[int, ...]]]
    ) -> dict[int, list[int]]:
        """The steps of vectors to show; each vector is read once while the run goes on."""
        if self._thinning[0] != self._gathered.generation:
            self._thinning = self._gathered.generation, Thinning()
        choose = chooser(self._thinning[1], readout, self._gathered.series)
        return kept_steps(shapes, TENSORS_BUDGET, choose)

    def _see(self, about: About) -> Seen:
        """The findings, looked for again only if there are new numbers, or others were told."""
        size = sum(group.size for group in self._gathered.groups)
        known = self._gathered.generation, size, *(each[:2] for each in about.told)
        if self._seen[0] != known:
            self._seen = known, seen_in(self._gathered, about)
        return self._seen[1]

    @property
    def _groups(self) -> list[tuple[Gathered, Group]]:
        every = (self._gathered, self._recorded)
        return [(gathered, group) for gathered in every for group in gathered.groups]

    def _first_id(self, gathered: Gathered) -> int:
        return _RECORDED if gathered is self._recorded else 0

    def _series_entries(
        self, gathered: Gathered, group: Group, outline: Outline | None
    ) -> list[dict[str, Any]]:
        """The entries of a group's series, made again only if there are new numbers."""
        key = self._first_id(gathered), gathered.generation, group.number
        size, entries = self._entries.get(key, (0, []))
        if size != group.size:
            order = in_order(group.series, gathered.series, outline)
            rows = [gathered.series[i] for i in order]
            entries = numbers_entries(rows, group.numbers(order), 0)
            self._entries[key] = group.size, entries
        return entries

    def _entry_of(self, gathered: Gathered, group: Group) -> dict[str, Any]:
        known = entry_of(group, self._first_id(gathered) + 2 * group.number)
        version = f"{gathered.generation}.{group.version}"
        rows = len(group.series)
        return {**known, "kind": "numbers", "rows": rows, "last": group.last, "version": version}

    def _entry_of_vectors(self, series: int, steps: Sequence[int]) -> dict[str, Any]:
        known = {"id": 2 * series + 1, **named(self._gathered.series[series])}
        version = f"{self._gathered.generation}"
        return {**known, "kind": "tensors", "rows": 1, "last": max(steps), "version": version}

    def _numbers(
        self, readout: RunReadout, gathered: Gathered, number: int, after: int | None
    ) -> Chunk | None:
        groups = {group.number: group for group in gathered.groups}
        if number not in groups:
            return None
        group = groups[number]
        outline = readout.about().outline
        numbers = group.numbers(in_order(group.series, gathered.series, outline), after)
        entry = self._entry_of(gathered, group)
        if after is not None:
            return numbers_chunk(entry, numbers, group.kind, 1)
        width = width_for([each for _, each in self._groups], NUMBERS_BUDGET)
        return numbers_chunk(entry, numbers, group.kind, width)

    def _vectors(self, readout: RunReadout, series: int, after: int | None) -> Chunk | None:
        shapes: Mapping[int, Any] = readout.shapes()
        kept = self._kept(readout, shapes)
        if series not in kept:
            return None
        steps = kept[series] if after is None else [s for s in shapes[series] if s > after]
        entry = self._entry_of_vectors(series, list(shapes[series]))
        unit = self._gathered.series[series].unit
        return tensors_chunk(entry, readout.tensors(series, steps), unit)
