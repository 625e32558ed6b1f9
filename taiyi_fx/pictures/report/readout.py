"""Readouts: one way to read a report's data from a run on disk or from records in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.told import Told
from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event, Records, Series, as_numpy
from taiyi_fx.runs.run import Run
from taiyi_fx.runs.schema import SeriesName, from_text
from taiyi_fx.runs.source import EpochSpan, Slice

if TYPE_CHECKING:
    from torch import Tensor

    from taiyi_fx.monitor import Monitor
    from taiyi_fx.passes.ir import Mode


_EVERY_STEP = -(2**63), 2**63 - 1


class About(NamedTuple):
    """The description of a run: everything but its numbers.

    Attributes:
        model: The model's class.
        versions: The versions of Python, torch and taiyi_fx.
        sessions: The first step of each process that wrote the run.
        epochs: The epochs that have ended.
        events: Warnings, and first sites of NaN and Inf.
        outline: The outline of the model; None if it is not known.
        missing: Reasons for values that were not available.
        told: What the monitor found, or those of the run's parts.
    """

    model: str
    versions: Mapping[str, str]
    sessions: Sequence[int]
    epochs: Sequence[EpochSpan]
    events: Sequence[Event]
    outline: Outline | None
    missing: Sequence[Event] = ()
    told: Sequence[Told] = ()


class Described(NamedTuple):
    """A series without its numbers.

    Attributes:
        name: Its module, quantity and mode.
        direction: ``"forward"``, ``"backward"``, ``"parameter"``, or empty.
        unit: The unit of its numbers.
        health: The rule by which its numbers are flagged.
    """

    name: SeriesName
    direction: str
    unit: str
    health: str = ""


class Readout(Protocol):
    """Reads a run's data as they are at the time of the call."""

    def about(self) -> About:
        """The description of the run."""
        ...

    def series(self) -> Mapping[int, Described]:
        """All series by their ids, in the order of their first record."""
        ...

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers in slices, or only those recorded after the mark of an earlier slice.

        Raises:
            Changed: The run has lost numbers from before the mark.
        """
        ...

    def shapes(self) -> Mapping[int, Mapping[int, tuple[int, ...]]]:
        """The shapes of tensors, by series and step."""
        ...

    def tensors(self, series: int, steps: Sequence[int]) -> Mapping[int, NDArray[Any]]:
        """The tensors of a series at some steps."""
        ...


class RunReadout:
    """Reads a run on disk.

    Args:
        run: The open run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def about(self) -> About:
        """The description of the run."""
        run = self._run
        sessions = [session.start_step for session in run.sessions]
        facts = run.model, run.versions, sessions, run.epochs, run.events
        return About(*facts, run.outline, run.missing, run.source.told())

    def series(self) -> dict[int, Described]:
        """All series by their ids, in the order of their first record."""
        return {
            s.id: Described(s.series_name, s.direction, from_text(s.unit), s.health)
            for s in self._run.source.series()
        }

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers in slices, or only those recorded after the mark of an earlier slice."""
        return self._run.source.slices(mark)

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors, by series and step."""
        return self._run.source.shapes()

    def tensors(self, series: int, steps: Sequence[int]) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps."""
        return self._run.source.arrays(series, steps)


class MonitorReadout:
    """Reads what a monitor has in memory: its records, findings, and the first sites of NaN or Inf.

    Epochs are left out, as a monitor does not keep their steps.

    Args:
        monitor: The monitor; waits for values that are still being computed.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._info = monitor.info
        self._outline = monitor.outline
        self._sites = monitor.non_finite
        self._told = Told(*_EVERY_STEP, monitor.findings)
        self._missing = [
            Event(monitor.next_step, "missing", module, f"{quantity}: {why}")
            for (module, quantity), why in monitor.missing.items()
        ]
        self._ids: dict[SeriesName, int] = {}
        records = monitor.records
        self._slice = self._numbers(records)
        self._tensors: dict[int, dict[int, Tensor]] = {}
        for r in records.of_tensors():
            series = self._id(SeriesName(r.module, r.quantity, r.mode))
            self._tensors.setdefault(series, {})[r.step] = cast("Tensor", r.value)

    def about(self) -> About:
        """The description of the run."""
        info = self._info
        events = [site.event for site in self._sites]
        facts = info.model, info.versions, [info.start_step], [], events
        return About(*facts, self._outline, self._missing, [self._told])

    def series(self) -> dict[int, Described]:
        """All series by their ids, in the order of their first record."""
        return {i: self._described(name) for name, i in self._ids.items()}

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, as one slice."""
        del mark  # records in memory are read once
        yield self._slice

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors, by series and step."""
        return {
            series: {step: tuple(x.shape) for step, x in found.items()}
            for series, found in self._tensors.items()
        }

    def tensors(self, series: int, steps: Sequence[int]) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps."""
        return {step: as_numpy(self._tensors[series][step]) for step in steps}

    def _numbers(self, records: Records) -> Slice:
        ids: list[int] = []
        steps: list[int] = []
        values: list[float | int] = []
        known: dict[tuple[tuple[Series, ...], Mode], list[int]] = {}
        for step, mode, series, numbers in records.blocks():
            if (series, mode) not in known:
                known[series, mode] = [self._id(SeriesName(*one, mode)) for one in series]
            ids += known[series, mode]
            steps += [step] * len(series)
            values += numbers
        arrays = np.array(ids, np.int64), np.array(steps, np.int64), np.array(values, np.float64)
        return Slice(*arrays, ())

    def _id(self, name: SeriesName) -> int:
        return self._ids.setdefault(name, len(self._ids) + 1)

    def _described(self, name: SeriesName) -> Described:
        found = self._info.describe((name.module, name.quantity))
        return Described(name, found.direction, found.unit, found.health)
