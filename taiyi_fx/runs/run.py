"""A run's data: curves, grids, tensors, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings import Evidence, Findings, Watched
from taiyi_fx.findings.told import find_beside
from taiyi_fx.outline import Outline
from taiyi_fx.outline.of_evidence import with_outline
from taiyi_fx.records.grid import Grid, grid
from taiyi_fx.records.imported import imported
from taiyi_fx.records.record import OF_FINDINGS, Event
from taiyi_fx.records.table import as_html, as_table
from taiyi_fx.runs.reasons import reasons
from taiyi_fx.runs.recording import Recording, recordings_in
from taiyi_fx.runs.schema import SeriesName, Session, StoredSeries, from_text
from taiyi_fx.runs.source import COLUMNS, FLAGS, Curve, EpochSpan, RunSource, Span, flags
from taiyi_fx.suggestion import suggestion

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from taiyi_fx.passes.ir import Mode


class Run:
    """A recorded run: the values so far, where it is still being written.

    Made by `taiyi_fx.open_run`. Use it in a ``with`` block, or close it.

    Attributes:
        path: The run's folder.
        source: The format behind it, for readers inside this package.
    """

    def __init__(self, path: Path, source: RunSource) -> None:
        self.path = path
        self.source = source

    @property
    def sessions(self) -> list[Session]:
        """The sessions that wrote the run: the first, and those that resumed it.

        Raises:
            ValueError: The run is damaged: it has none.
        """
        sessions = self.source.sessions()
        if not sessions:
            raise ValueError(f"{str(self.path)!r} is damaged: it has no session")
        return sessions

    @property
    def model(self) -> str:
        """The model's class."""
        return self.sessions[-1].model

    @property
    def config(self) -> Sequence[Mapping[str, Any]]:
        """Each quantity of each module, with its schedule and options."""
        return self.sessions[-1].config

    @property
    def versions(self) -> Mapping[str, str]:
        """Of Python, torch and taiyi_fx."""
        return self.sessions[-1].versions

    @property
    def seed(self) -> int:
        """Torch's initial seed."""
        return self.sessions[-1].seed

    @property
    def modules(self) -> list[str]:
        """Names of all modules with a record, with their calls, such as ``"fc"`` and ``"fc@1"``."""
        return _names(self.source.series())

    @property
    def quantities(self) -> list[str]:
        """Names of all quantities with a record."""
        return list(dict.fromkeys(from_text(s.quantity) for s in self.source.series()))

    @property
    def events(self) -> list[Event]:
        """Warnings, and the first sites of NaN or Inf."""
        return [event for event in self.source.events() if event.kind not in OF_FINDINGS]

    @property
    def missing(self) -> list[Event]:
        """The reasons for values that were not available, each at the step where it was new."""
        return [event for event in self.source.events() if event.kind in ("warning", "missing")]

    @property
    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended, with their steps."""
        return self.source.epochs()

    @property
    def outline(self) -> Outline | None:
        """The model as boxes within boxes, as it was last seen; None before the first flush."""
        return self.source.outline()

    @property
    def findings(self) -> Findings:
        """The faults of the training, most urgent first: what `Monitor.findings` had at its end.

        Of a run that is still written, or whose process was killed: what was found when something
        new was told of last, and what numbers of later steps show by themselves. A finding names
        the cause; what follows from it is among its `consequences`.
        """
        series = [s for s in self.source.series() if s.mode == "train" or not s.direction]
        curves = self.curves(s.series_name for s in series)
        watched = [
            Watched.made(s.series_name[:2], (s.direction, s.health, s.unit), *curve, s.mode)
            for s in series
            if (curve := curves.get(s.series_name)) is not None
        ]
        known = Evidence.of(
            watched, reasons(self.missing, [s for s in watched if s.mode == "train"])
        )
        return find_beside(self.source.told(), with_outline(known, self.outline))

    @property
    def recordings(self) -> list[Recording]:
        """The last steps of every site, as a recorder wrote them: at alerts, errors and signals.

        Raises:
            ValueError: One is damaged.
        """
        return recordings_in(self.path)

    def series(self, module: str, quantity: str, mode: Mode = "train", call: int = 0) -> Curve:
        """The numbers of one series.

        Args:
            module: The module's name, ``""`` for the model itself and what was logged.
            quantity: The quantity's name in records.
            mode: Of the forwards.
            call: The number of the module's call in a forward; ``"fc@1"`` as a name says the same.

        Raises:
            LookupError: There is no such series, or it holds tensors.
        """
        found = self._find(module, quantity, mode, call)
        curve = self.source.curve(found)
        if not len(curve.steps) and self.source.arrays(found):
            raise LookupError(f"{quantity!r} of {module!r} are tensors: see Run.tensors")
        return curve

    def spans(self) -> dict[SeriesName, Span]:
        """The count of values of each series, with their first and last step."""
        spans = self.source.spans()
        series = self.source.series()
        return {s.series_name: spans[s.id] for s in series if s.id in spans}

    def curves(self, names: Iterable[SeriesName]) -> dict[SeriesName, Curve]:
        """The numbers of many series, read at once; series of tensors are left out.

        All values are float64, unlike those of `series`.

        Args:
            names: Names of series, as `spans` has them.

        Raises:
            KeyError: There is no series of this name.
        """
        ids = {s.series_name: s.id for s in self.source.series()}
        asked = {ids[name]: name for name in names}
        if not asked:
            return {}
        points = self.source.points(list(asked))
        order = np.lexsort((points.step, points.series))  # stable, as is the order of making
        series, first = np.unique(points.series[order], return_index=True)
        parts = (np.split(column[order], first[1:]) for column in (points.step, points.value))
        found = {i: Curve(*curve) for i, *curve in zip(series.tolist(), *parts, strict=False)}
        return {name: found[i] for i, name in asked.items() if i in found}

    def tensors(
        self, module: str, quantity: str, mode: Mode = "train", call: int = 0
    ) -> dict[int, NDArray[Any]]:
        """The tensors of one series by step; of several at a step the last.

        They are float32, where the recorded ones were that or narrower, and else of their type.

        Args:
            module: The module's name.
            quantity: The quantity's name in records.
            mode: Of the forwards.
            call: The number of the module's call in a forward.

        Raises:
            LookupError: There is no such series, or it holds numbers.
        """
        found = self._find(module, quantity, mode, call)
        arrays = self.source.arrays(found)
        if not arrays and len(self.source.curve(found).steps):
            raise LookupError(f"{quantity!r} of {module!r} are numbers: see Run.series")
        return arrays

    def grid(self, quantity: str, mode: Mode = "train") -> Grid:
        """A quantity's numbers of all modules, by step.

        Raises:
            LookupError: There are none.
        """
        every = [s for s in self.source.series() if s.mode == mode]
        asked = {s.id: s for s in every if from_text(s.quantity) == quantity}
        points = self.source.points(list(asked)) if asked else None
        if points is None or not len(points.step):
            known = dict.fromkeys(from_text(s.quantity) for s in every if s.id not in asked)
            hint = suggestion(quantity, list(known))
            raise LookupError(f"there are no numbers of {quantity!r} in {mode}.{hint}")
        ids, first, place = np.unique(points.series, return_index=True, return_inverse=True)
        order = np.argsort(first)
        names = [asked[i].name for i in ids[order].tolist()]
        return grid(names, np.argsort(order)[place], points.step, points.value)

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """All numbers as columns of equal length, in the order in which they were made.

        They are those of the view ``points``: step, epoch, module, call, quantity, mode, direction,
        unit, value (float64), and flag: ``"NaN"``, ``"+Inf"``, ``"-Inf"``, or empty.
        """
        return self._columns(lambda values, rows: np.array(values, object)[rows])

    def to_pandas(self) -> pd.DataFrame:
        """The columns of `to_numpy` as a pandas table, its texts as categories.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = imported("pandas")
        return pandas.DataFrame(
            self._columns(lambda values, rows: pandas.Categorical(values).take(rows))
        )

    def to_polars(self) -> pl.DataFrame:
        """The columns of `to_numpy` as a polars table, its texts as categories.

        Raises:
            ImportError: polars is not installed.
        """
        polars = imported("polars")
        return polars.DataFrame(
            self._columns(
                lambda values, rows: polars.Series(values, dtype=polars.Categorical).gather(rows)
            )
        )

    def scan(self) -> pl.LazyFrame:
        """All numbers as a lazy table of polars, of which a query reads what it needs.

        It has the columns of `to_numpy`. Parts of Parquet are read as the query runs, so that it
        takes memory for its result alone; a run in SQLite is read at once.

        Raises:
            ImportError: polars is not installed.
        """
        found = self.source.scan()
        return self.to_polars().lazy() if found is None else found.select(COLUMNS)

    def close(self) -> None:
        """Closes the run."""
        self.source.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}: {self.model}, {len(self.source.series())} series>"

    def __str__(self) -> str:
        return as_table(_HEAD, self._rows())

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The table that a notebook shows."""
        text = as_html(repr(self), _HEAD, self._rows())
        return {"text/plain": repr(self), "text/html": text}

    def _rows(self) -> list[tuple[str, ...]]:
        spans = self.source.spans()
        there = [(s, spans[s.id]) for s in self.source.series() if s.id in spans]
        return [
            (s.module + (f"@{s.call}" if s.call else ""), s.quantity, s.mode, _text(span))
            for s, span in there
        ]

    def _columns(self, texts: Callable[[list[str], NDArray[np.intp]], Any]) -> dict[str, Any]:
        points = self.source.points()  # first: each of their series is there after it
        series = self.source.series()
        ids = np.array([s.id for s in series], np.int64)
        if not np.isin(points.series, ids).all():
            raise ValueError(f"{str(self.path)!r} is damaged: it has numbers of unknown series")
        order = np.argsort(ids)
        rows = order[np.searchsorted(ids, points.series, sorter=order)]
        return {
            "step": points.step,
            "epoch": points.epoch,
            "module": texts([s.module for s in series], rows),
            "call": np.array([s.call for s in series], np.int64)[rows],
            **{
                name: texts([getattr(s, name) for s in series], rows)
                for name in ("quantity", "mode", "direction", "unit")
            },
            "value": points.value,
            "flag": texts(FLAGS, flags(points.value)),
        }

    def _find(self, module: str, quantity: str, mode: Mode, call: int) -> int:
        """The id of a series."""
        name = f"{module}@{call}" if call else module
        every = self.source.series()
        of_module = [s for s in every if s.name == name]
        if not of_module:
            raise LookupError(f"no module {name!r} in the run.{suggestion(name, _names(every))}")
        of_quantity = [s for s in of_module if from_text(s.quantity) == quantity]
        if not of_quantity:
            known = list(dict.fromkeys(from_text(s.quantity) for s in of_module))
            raise LookupError(f"no {quantity!r} of {name!r}.{suggestion(quantity, known)}")
        for series in of_quantity:
            if series.mode == mode:
                return series.id
        raise LookupError(f"no {quantity!r} of {name!r} in {mode}, but in {of_quantity[0].mode}")


_HEAD = ("module", "quantity", "mode", "steps")


def _names(series: Sequence[StoredSeries]) -> list[str]:
    return list(dict.fromkeys(s.name for s in series))


def _text(span: Span) -> str:
    return f"{span.first} ... {span.last} ({span.numbers})" if span.numbers > 1 else str(span.first)
