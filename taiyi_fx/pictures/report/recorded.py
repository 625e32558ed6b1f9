"""The last steps that a recorder wrote, as further series of a run's report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.pictures.report.readout import About, Described, Readout
from taiyi_fx.records.record import Event
from taiyi_fx.runs.recording import STATISTICS, RecordedSite, Recording
from taiyi_fx.runs.schema import SeriesName
from taiyi_fx.runs.source import Slice

_PREFIX = "Recorder."
_PLACES = {"output": ("", "forward"), "output_grad": ("grad.", "backward")}
_FACTS = {"non_finite": ("elements", "counts_non_finite")}
"""The unit and the rule of a statistic, where it has one."""

_WHOLE = ("all",)
"""The mark of all numbers, after which there are no others."""


def is_recorded(quantity: str) -> bool:
    """True of the quantities of a recorder."""
    return quantity.startswith(_PREFIX)


class RecordedSeries:
    """The statistics that recordings have, as series of their own; those of the first rank alone.

    Args:
        recordings: The recordings, in the order of their last steps.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings

    def about(self) -> About:
        """An event for each recording."""
        return About("", {}, [], [], [*map(_event, self._recordings)], None)

    def series(self, first: int = 0) -> dict[int, Described]:
        """The series by their ids, which begin with one."""
        described = [_described(site, name) for site in self._sites() for name in STATISTICS]
        return dict(enumerate(described, first))

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers in one slice, of a first reading."""
        if not mark:
            yield self.numbers(0)

    def shapes(self) -> Mapping[int, Mapping[int, tuple[int, ...]]]:
        """No shapes, as no tensor is among the statistics."""
        return {}

    def tensors(self, series: int, steps: Sequence[int]) -> Mapping[int, NDArray[Any]]:
        """No tensors, as all statistics are numbers."""
        return {}

    def numbers(self, first: int) -> Slice:
        """The numbers of all steps; a step that several recordings have is taken once."""
        places = {site: i for i, site in enumerate(self._sites())}
        rows: dict[int, list[Slice]] = {}
        for one in self._shown:
            ids = np.array([places[site] for site in one.sites], np.int64)
            for step, values in zip(one.steps, one.values, strict=True):
                rows.setdefault(step, []).append(_row(step, first, ids, values))
        found = [several[0] for _, several in sorted(rows.items())]
        nothing = Slice(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), ())
        return Slice(
            np.concatenate([nothing.series, *(one.series for one in found)]),
            np.concatenate([nothing.step, *(one.step for one in found)]),
            np.concatenate([nothing.value, *(one.value for one in found)]),
            _WHOLE,
        )

    @property
    def _shown(self) -> list[Recording]:
        ranks = [one.rank for one in self._recordings]
        return [one for one in self._recordings if one.rank == min(ranks)]

    def _sites(self) -> list[RecordedSite]:
        return list(dict.fromkeys(site for one in self._shown for site in one.sites))


class WithRecordings:
    """A readout with the statistics that recordings have, as further series.

    Recordings of other ranks than the first are listed among the events alone.

    Args:
        readout: The readout.
        recordings: The recordings, in the order of their last steps.
    """

    def __init__(self, readout: Readout, recordings: Sequence[Recording]) -> None:
        self._readout, self._recorded = readout, RecordedSeries(recordings)

    def about(self) -> About:
        """The description of the run, with an event for each recording."""
        about = self._readout.about()
        return about._replace(events=[*about.events, *self._recorded.about().events])

    def series(self) -> dict[int, Described]:
        """All series by their ids; those of recordings come last."""
        own = self._readout.series()
        return {**own, **self._recorded.series(max(own, default=0) + 1)}

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers in slices; those of recordings are the last one, of a first reading."""
        last = mark
        for one in self._readout.slices(mark):
            last = one.mark
            yield one
        if not mark:
            first = max(self._readout.series(), default=0) + 1
            yield self._recorded.numbers(first)._replace(mark=last)

    def shapes(self) -> Mapping[int, Mapping[int, tuple[int, ...]]]:
        """The shapes of tensors, by series and step."""
        return self._readout.shapes()

    def tensors(self, series: int, steps: Sequence[int]) -> Mapping[int, NDArray[Any]]:
        """The tensors of a series at some steps."""
        return self._readout.tensors(series, steps)


def _described(site: RecordedSite, statistic: str) -> Described:
    part, direction = _PLACES[site.place]
    name = SeriesName(site.module, f"{_PREFIX}{part}{statistic}", "train")
    return Described(name, direction, *_FACTS.get(statistic, ("", "")))


def _row(step: int, first: int, ids: NDArray[np.int64], values: NDArray[np.float64]) -> Slice:
    """The numbers of one step: those of sites that were read."""
    is_read = ~np.isnan(values[:, -1])
    series = first + len(STATISTICS) * ids[is_read, None] + np.arange(len(STATISTICS))
    numbers = values[is_read].reshape(-1)
    return Slice(series.reshape(-1), np.full(len(numbers), step, np.int64), numbers, ())


def _event(one: Recording) -> Event:
    first = one.first_non_finite
    module = "" if first is None else first[1].module
    rank = f" of rank {one.rank}" if one.rank else ""
    text = f"{one.summary}{rank}. Written for: {'; '.join(one.reasons)}"
    return Event(one.step or 0, "recording", module, text)
