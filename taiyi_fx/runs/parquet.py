"""Runs kept as parts of Parquet, read back.

Which parts count, the head says (`head.py`). A reader beside a writer asks it again once it has
read: where parts were rewritten meanwhile, it reads them again.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.told import Told
from taiyi_fx.outline import Outline
from taiyi_fx.records.imported import imported
from taiyi_fx.records.record import Event
from taiyi_fx.runs.damage import (
    checked,
    checked_session,
    damaged,
    names_the_file,
    reading,
)
from taiyi_fx.runs.head import Head, part_of, read_head, temporary
from taiyi_fx.runs.schema import (
    OUTLINE,
    Session,
    StoredSeries,
    as_array,
    as_shape,
    from_text,
)
from taiyi_fx.runs.source import Changed, Curve, EpochSpan, Points, Slice, Span, merge_spans
from taiyi_fx.runs.telling import told_in

if TYPE_CHECKING:
    import polars as pl


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
        """The folder of the run's parts, which errors name."""
        return self._folder

    @names_the_file
    def sessions(self) -> list[Session]:
        """The sessions that wrote the run, in their order."""
        return [checked_session(Session(**x)) for x in read_head(self._folder).sessions]

    @names_the_file
    def series(self) -> list[StoredSeries]:
        """All series, by their ids."""
        rows = read_head(self._folder).series
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
            Changed: The part at the mark is gone, or another one; or a session has resumed the run.
        """
        names = ["series", "step", "value"]
        if mark and mark != self._mark(mark[0]):
            raise Changed
        with reading(self.place):
            head = read_head(self._folder)
        numbers = [n for n in head.parts["points"] if not mark or n > mark[0]]
        try:
            for number in numbers:
                ends = self._mark(number)
                table = self._part(head, "points", number, names)
                series, step, value = (table.column(name).to_numpy() for name in names)
                yield Slice(series, step, value, ends)
        except FileNotFoundError:
            self._refuse_resumed(head)
            raise
        self._refuse_resumed(head)

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
        return [checked(EpochSpan(*row[:3])) for row in read_head(self._folder).epochs]

    @names_the_file
    def scan(self) -> pl.LazyFrame | None:
        """The long table of all parts, unread; None while a session is dropping rows of some."""
        polars = imported("polars")
        head = read_head(self._folder)
        if not head.is_settled:
            return None
        files = [self._file(number) for number in head.parts["points"]]
        frame = polars.scan_parquet(files) if files else polars.from_arrow(_no_points()).lazy()
        return frame.with_columns(polars.col("flag").cast(polars.String).fill_null(""))

    @names_the_file
    def told(self) -> list[Told]:
        """The findings of the monitor when it last looked."""
        return [told_in(self.events(), self.sessions())]

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
        while True:
            head = read_head(self._folder)
            none = schema(kind).empty_table().select(names)
            try:
                found = [self._part(head, kind, n, names, filters) for n in head.parts[kind]]
            except FileNotFoundError:
                if read_head(self._folder).continues(head):
                    raise
            else:
                if read_head(self._folder).continues(head):
                    return pyarrow("pyarrow").concat_tables([none, *found])

    def _part(
        self, head: Head, kind: str, number: int, names: list[str], filters: Filters = ()
    ) -> Any:  # pyarrow's own
        """Columns of a part as they count, once they are of their types and have no gaps."""
        is_cut = number < head.cut.number
        filters = [*filters, ("step", "<", head.cut.step)] if is_cut else list(filters)
        try:
            part, table = self._found(kind, number, names, filters)
        except FileNotFoundError:
            if is_cut:  # none of its rows counted
                return schema(kind).empty_table().select(names)
            raise
        for name in names:
            known = schema(kind).field(name)
            if name not in table.column_names or table.schema.field(name).type != known.type:
                raise ValueError(
                    f"{str(part)!r} is damaged: it has no column {name} of {known.type}"
                )
            if table.column(name).null_count and name != "integer":
                raise ValueError(f"{str(part)!r} is damaged: the column {name} has gaps")
        return renumbered(table, head, number)

    def _found(
        self, kind: str, number: int, names: list[str], filters: Filters
    ) -> tuple[Path, Any]:
        """A part and what was read of it, under its name or, until it takes that, another."""
        part = part_of(self._folder, kind, number)
        with suppress(FileNotFoundError):
            return part, read_part(part, columns=names, filters=filters or None)
        with suppress(FileNotFoundError):
            other = temporary(part)
            return other, read_part(other, columns=names, filters=filters or None)
        return part, read_part(part, columns=names, filters=filters or None)  # taken meanwhile

    def _file(self, number: int) -> Path:
        """A part's file: under its name or, until it takes that, another."""
        part = part_of(self._folder, "points", number)
        other = temporary(part)
        return part if part.exists() or not other.exists() else other

    def _refuse_resumed(self, head: Head) -> None:
        """Raises if another session has begun, which may have dropped steps."""
        with reading(self.place):
            if read_head(self._folder).writer != head.writer:
                raise Changed

    def _mark(self, number: int) -> tuple[Any, ...]:
        """A mark that changes when a part is written anew; empty where there is no such part."""
        part = part_of(self._folder, "points", number)
        for file in (part, temporary(part), part):
            with suppress(FileNotFoundError):
                found = file.stat()
                return number, found.st_mtime_ns, found.st_size, found.st_ino
        return ()


def _no_points() -> Any:  # pyarrow's own
    return schema("points").empty_table()


Filters = Sequence[tuple[str, str, Any]]
"""Conditions on rows, as pyarrow takes them."""


def renumbered(table: Any, head: Head, number: int) -> Any:  # pyarrow's own
    """The rows of a part with the epochs that its run's head says they have."""
    first, end, expected, to = head.renumbering
    if "epoch" not in table.column_names or not first <= number < end:
        return table
    epoch = table.column("epoch").to_numpy()
    at = table.schema.get_field_index("epoch")
    changed = pyarrow("pyarrow").array(np.where(epoch == expected, to, epoch))
    return table.set_column(at, "epoch", changed)


def read_part(part: Path, **options: Any) -> Any:  # pyarrow's own
    """A part as a table.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    try:
        read = pyarrow("pyarrow.parquet").read_table
        return read(part, page_checksum_verification=True, **options)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, os.strerror(error.errno), str(part)) from error
        raise damaged(part, error) from error
    except pyarrow("pyarrow").ArrowException as error:
        raise damaged(part, error) from error


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
