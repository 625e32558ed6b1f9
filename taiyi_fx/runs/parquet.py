"""Runs kept as parts of Parquet, read back.

The head, ``run.json``, has the sessions, the series and the epochs; numbers, tensors and events
stand in parts, a file for each flush, which are read in the order of their names.

A session that resumes a run drops later steps from the parts one by one, which takes a while and
may be cut short. So the head first says from which step on rows count no longer, and in which
parts. A head is replaced as a whole: a reader sees the run before the cut, or after it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.damage import (
    checked,
    checked_session,
    damaged,
    names_the_file,
    numbered,
    reading,
)
from taiyi_fx.runs.schema import (
    CUT,
    OUTLINE,
    PARQUET,
    SESSIONS,
    VERSION,
    Session,
    StoredSeries,
    as_array,
    as_shape,
    from_text,
    newer,
)
from taiyi_fx.runs.source import Changed, Curve, EpochSpan, Points, Slice, Span, merge_spans


class ParquetSource:
    """A run's parts, opened for reading.

    Args:
        folder: The folder of the run.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: They cannot be read.
        ValueError: They are damaged, or of a newer taiyi_fx.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        pyarrow("pyarrow.parquet")
        read_head(folder)

    @property
    def place(self) -> Path:
        """The folder."""
        return self._folder

    @names_the_file
    def sessions(self) -> list[Session]:
        """The sessions that wrote the run, in their order."""
        return [checked_session(Session(**x)) for x in read_head(self._folder)[SESSIONS]]

    @names_the_file
    def series(self) -> list[StoredSeries]:
        """All series, by their ids."""
        rows = read_head(self._folder)["series"]
        return [checked(StoredSeries(*row)) for row in rows]

    @names_the_file
    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        names = ["step", "epoch", "series", "value"]
        which = [] if series is None else [("series", "in", series)]
        table = self._read("points", names, which)
        return Points(*(table.column(name).to_numpy() for name in names))

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those after an earlier slice's mark, slice by slice.

        Raises:
            Changed: The part at the mark is gone, or another one.
        """
        names = ["series", "step", "value"]
        if mark and mark != _mark(self._folder / mark[0]):
            raise Changed
        with reading(self.place):
            cut = cut_of(read_head(self._folder))
        for part in parts(self._folder, "points"):
            if not mark or part.name > mark[0]:
                ends = _mark(part)
                table = self._part(part, "points", names, cut.of(part))
                series, step, value = (table.column(name).to_numpy() for name in names)
                yield Slice(series, step, value, ends)

    @names_the_file
    def curve(self, series: int) -> Curve:
        """The numbers of a series by step; several at one step in the order they were made."""
        table = self._read("points", ["step", "value", "integer"], [("series", "==", series)])
        steps, values, integers = (table.column(i) for i in range(3))
        is_whole = len(steps) and integers.null_count == 0
        order = np.argsort(steps.to_numpy(), kind="stable")
        found = (integers if is_whole else values).to_numpy()
        return Curve(steps.to_numpy()[order], found[order])

    @names_the_file
    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps, or at all; of several at one step the last."""
        names = ["step", "dtype", "shape", "data"]
        which = [("series", "==", series)]
        which += [] if steps is None else [("step", "in", list(steps))]
        rows = self._read("tensors", names, which).to_pylist()
        return {r["step"]: as_array(r["data"], r["dtype"], r["shape"]) for r in rows}

    @names_the_file
    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors by step, for each series that has some."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        for row in self._read("tensors", ["series", "step", "shape"]).to_pylist():
            found.setdefault(row["series"], {})[row["step"]] = as_shape(row["shape"])
        return found

    @names_the_file
    def spans(self) -> dict[int, Span]:
        """The count of values of each series, with their first and last step."""
        found: list[tuple[int, Span]] = []
        for kind in ("points", "tensors"):
            table = self._read(kind, ["step", "series"])
            of, step = table.column("series").to_numpy(), table.column("step").to_numpy()
            ids, rows, counts = np.unique(of, return_inverse=True, return_counts=True)
            first, last = (
                np.full(len(ids), end) for end in (step.max(initial=0), step.min(initial=0))
            )
            np.minimum.at(first, rows, step)
            np.maximum.at(last, rows, step)
            columns = (x.tolist() for x in (ids, counts, first, last))
            found += [(i, Span(*rest)) for i, *rest in zip(*columns, strict=True)]
        return merge_spans(found)

    @names_the_file
    def events(self) -> list[Event]:
        """Warnings, and sites of NaN or Inf."""
        rows = self._read("events", ["step", "kind", "module", "text"]).to_pylist()
        return [
            checked(Event(r["step"], r["kind"], from_text(r["module"]), from_text(r["text"])))
            for r in rows
        ]

    @names_the_file
    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        return [checked(EpochSpan(*row[:3])) for row in read_head(self._folder)["epochs"]]

    @names_the_file
    def outline(self) -> Outline | None:
        """The model as boxes within boxes; None if it was not written yet."""
        file = self._folder / OUTLINE
        if not file.exists():
            return None
        with reading(file):
            return Outline.from_json(json.loads(file.read_text(encoding="utf-8")))

    def close(self) -> None:
        """Does nothing: no file is held open."""

    def _read(self, kind: str, names: list[str], filters: Filters = ()) -> Any:  # pyarrow's own
        cut = cut_of(read_head(self._folder))
        none = schema(kind).empty_table().select(names)
        every = parts(self._folder, kind)
        found = [self._part(part, kind, names, [*filters, *cut.of(part)]) for part in every]
        return pyarrow("pyarrow").concat_tables([none, *found])

    def _part(self, part: Path, kind: str, names: list[str], filters: Filters = ()) -> Any:
        """Columns of a part, once they are of their types and have no gaps."""
        table = read_part(part, columns=names, filters=list(filters) or None)
        for name in names:
            known = schema(kind).field(name)
            if name not in table.column_names or table.schema.field(name).type != known.type:
                raise ValueError(
                    f"{str(part)!r} is damaged: it has no column {name} of {known.type}"
                )
            if table.column(name).null_count and name != "integer":
                raise ValueError(f"{str(part)!r} is damaged: the column {name} has gaps")
        return table


Filters = Sequence[tuple[str, str, Any]]
"""Conditions on rows, as pyarrow takes them."""


class Cut(NamedTuple):
    """The rows that count no longer: those from a step on, in parts below a number."""

    number: int
    step: int

    def of(self, part: Path) -> Filters:
        """The rows of a part that count."""
        return [("step", "<", self.step)] if part_number(part) < self.number else []


def cut_of(head: Mapping[str, Any]) -> Cut:
    """The cut that a session began; one of no part where it was done.

    Raises:
        TypeError: It is no pair of numbers.
    """
    return checked(Cut(*head.get(CUT, (0, 0))))


def part_number(part: Path) -> int:
    """The number of a part, by its name.

    Raises:
        ValueError: It has none.
    """
    number = part.stem.rpartition("-")[2]
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{str(part)!r} is no part of a run: its name has no number")
    return int(number)


def read_head(folder: Path) -> dict[str, Any]:
    """The head of a run in Parquet: its sessions, series and epochs.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    file = folder / PARQUET
    with reading(file):
        head = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(head, dict) or not isinstance(head.get("version"), int):
        raise ValueError(f"{str(file)!r} is no run of taiyi_fx")
    if head["version"] > VERSION:
        raise ValueError(newer(file, head["version"]))
    for part in (SESSIONS, "series", "epochs"):
        if not isinstance(head.get(part), list):
            raise ValueError(f"{str(file)!r} is damaged: it has no {part}")
    return head


def stored_series(head: Mapping[str, Any]) -> Sequence[StoredSeries]:
    """All series of a run that is to be added to.

    Raises:
        TypeError: A part of one is of another type.
        ValueError: Ids are missing, or two series are one.
    """
    return numbered([checked(StoredSeries(*row)) for row in head["series"]])


def read_part(part: Path, **options: Any) -> Any:  # pyarrow's own
    """A part as a table.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return pyarrow("pyarrow.parquet").read_table(part, **options)
    except FileNotFoundError:
        raise
    except (pyarrow("pyarrow").ArrowException, OSError) as error:
        raise damaged(part, error) from error


def parts(folder: Path, kind: str) -> list[Path]:
    """The parts of one kind: ``"points"``, ``"tensors"`` or ``"events"``."""
    return sorted(folder.glob(f"{kind}-*.parquet"))


def _mark(part: Path) -> tuple[Any, ...]:
    """A mark that changes when a part is written anew; empty where there is no such part."""
    try:
        found = part.stat()
    except FileNotFoundError:
        return ()
    return part.name, found.st_mtime_ns, found.st_size, found.st_ino


def schema(kind: str) -> Any:  # pyarrow's own
    """The schema of a part of one kind: a long table, with all columns in each part."""
    arrow = pyarrow("pyarrow")
    texts, whole = arrow.dictionary(arrow.int32(), arrow.string()), arrow.int64()
    of_series = [("series", whole), ("module", texts), ("call", whole)]
    of_series += [(name, texts) for name in ("quantity", "mode", "direction", "unit")]
    own = {
        "points": [("value", arrow.float64()), ("integer", whole), ("flag", texts)],
        "tensors": [
            ("dtype", arrow.string()),
            ("shape", arrow.list_(whole)),
            ("data", arrow.large_binary()),
        ],
    }
    if kind == "events":
        plain = [(name, arrow.string()) for name in ("kind", "module", "text")]
        return arrow.schema([("step", whole), *plain])
    return arrow.schema([("step", whole), ("epoch", whole), *of_series, *own[kind]])


def pyarrow(module: str) -> Any:  # an optional package, not seen by pyright
    """pyarrow, or a module of it.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError("pyarrow is not installed: pip install 'taiyi-fx[parquet]'") from error
