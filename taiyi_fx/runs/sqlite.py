"""Runs in SQLite, read while they are written to, after a crash, or from read-only media."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import APPLICATION, VERSION, Session, Stored, as_array, from_text, newer
from taiyi_fx.runs.source import Changed, Curve, EpochSpan, Points, Slice, Span, merged

_POINT = [
    ("rowid", np.int64),
    ("step", np.int64),
    ("epoch", np.int64),
    ("series", np.int64),
    ("is_nan", np.bool_),
    ("value", np.float64),
]

_SLICE_ROW = [("step", np.int64), ("series", np.int64), ("value", np.float64)]
_SLICE = 500_000
"""Numbers in a slice: some 20 MB."""


class SqliteSource:
    """A run's SQLite file, opened for reading.

    Args:
        file: It.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, of a newer taiyi_fx, or no run.
    """

    def __init__(self, file: Path) -> None:
        file.open("rb").close()  # its error names the reason, SQLite's would not
        self._file = file
        self._copies: TemporaryDirectory[str] | None = None
        self._db = self._connect()
        try:
            if is_new(self._db, file):
                raise ValueError(f"{str(file)!r} is empty: its run ended before it began")
            verify(self._db, file)
        except BaseException:
            self.close()
            raise

    def sessions(self) -> list[Session]:
        """The processes that wrote, in their order."""
        rows = self._rows("SELECT start_step, model, config, versions, seed FROM run")
        return [Session(at, m, json.loads(c), json.loads(v), int(s)) for at, m, c, v, s in rows]

    def series(self) -> list[Stored]:
        """All series, by their ids."""
        with self._telling():
            return stored_series(self._db)

    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        which = "" if series is None else f"WHERE series IN ({', '.join(map(str, series))})"
        text = "SELECT rowid, step, epoch, series, value IS NULL, ifnull(CAST(value AS REAL), 0.0)"
        with self._telling():
            # Straight from the cursor: tuples that are kept are gone through by garbage collection.
            table = np.fromiter(self._db.execute(f"{text} FROM point {which}"), _POINT)
        table = table[np.argsort(table["rowid"], kind="stable")]
        values = np.where(table["is_nan"], np.nan, table["value"])
        return Points(table["step"], table["epoch"], table["series"], values)

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those made after an earlier slice's mark, some at a time.

        Raises:
            Changed: What was there at the mark is not there any more.
        """
        # As float64 numpy takes None, which is NULL, for NaN, and digits for their number.
        text = "SELECT step, series, value FROM point WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        done = self._verified(mark)
        while done < (last := self._last_point()):
            until = min(done + _SLICE, last)
            with self._telling():
                table = np.fromiter(self._db.execute(text, (done, until)), _SLICE_ROW)
            done = until
            names = ("series", "step", "value")
            series, step, value = (np.ascontiguousarray(table[name]) for name in names)
            yield Slice(series, step, value, (done, *self._point(done)))

    def _verified(self, mark: tuple[Any, ...]) -> int:
        """The row that a mark names, if it still holds what it did."""
        if not mark:
            return 0
        row, *held = mark
        if self._point(row) != tuple(held):
            raise Changed
        return row

    def _point(self, row: int) -> tuple[Any, ...]:
        found = self._rows("SELECT step, series, value FROM point WHERE rowid = ?", (row,))
        return found[0] if found else ()

    def _last_point(self) -> int:
        return self._rows("SELECT coalesce(max(rowid), 0) FROM point")[0][0]

    def curve(self, series: int) -> Curve:
        """The numbers of a series; of a step in the order of their making."""
        text = "SELECT step, value FROM point WHERE series = ? ORDER BY step, rowid"
        rows = self._rows(text, (series,))
        steps = np.array([step for step, _ in rows], np.int64)
        return Curve(steps, _numbers([value for _, value in rows]))

    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """A series' tensors by step, of some steps or of all; of several the last."""
        text = "SELECT step, dtype, shape, data FROM tensor WHERE series = ?"
        text += "" if steps is None else f" AND step IN ({', '.join(map(str, steps))})"
        rows = self._rows(f"{text} ORDER BY rowid", (series,))
        return {step: as_array(data, dtype, json.loads(shape)) for step, dtype, shape, data in rows}

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """Of each series with tensors their shapes by step."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        for series, step, shape in self._rows("SELECT series, step, shape FROM tensor"):
            found.setdefault(series, {})[step] = tuple(json.loads(shape))
        return found

    def spans(self) -> dict[int, Span]:
        """How many numbers or tensors each series has, and from which step to which."""
        text = "SELECT series, count(*), min(step), max(step) FROM {} GROUP BY series"
        rows = [row for table in ("point", "tensor") for row in self._rows(text.format(table))]
        return merged((series, Span(*rest)) for series, *rest in rows)

    def events(self) -> list[Event]:
        """What was told."""
        rows = self._rows("SELECT step, kind, module, text FROM event ORDER BY rowid")
        return [Event(step, kind, from_text(m), from_text(text)) for step, kind, m, text in rows]

    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        rows = self._rows("SELECT number, first, last FROM epoch ORDER BY rowid")
        return [EpochSpan(*row) for row in rows]

    def outline(self) -> Outline | None:
        """The model as boxes within boxes; None if it was not written yet."""
        rows = self._rows("SELECT data FROM outline")
        return Outline.from_json(json.loads(rows[0][0])) if rows else None

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
        if self._copies is not None:
            self._copies.cleanup()

    def _connect(self) -> sqlite3.Connection:
        db = _opened(f"{self._file.as_uri()}?mode=ro")
        try:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            db.close()
            if "unable to open" in str(error) or "readonly" in str(error):
                return self._connect_where_nothing_can_be_written()
            raise damaged(self._file, error) from error
        return db

    def _connect_where_nothing_can_be_written(self) -> sqlite3.Connection:
        log = self._file.with_name(f"{self._file.name}-wal")
        if not log.exists():
            return _opened(f"{self._file.as_uri()}?mode=ro&immutable=1")
        # A crash left numbers in the log, which SQLite can only read where it may write.
        self._copies = TemporaryDirectory()
        copy = Path(self._copies.name) / self._file.name
        shutil.copyfile(self._file, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        return _opened(copy.as_uri())

    def _rows(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._telling():
            return self._db.execute(text, values).fetchall()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise damaged(self._file, error) from error


def is_new(db: sqlite3.Connection, file: Path) -> bool:
    """Whether a file has no tables yet.

    Raises:
        ValueError: It is damaged, or no SQLite file.
    """
    try:
        return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    except sqlite3.DatabaseError as error:
        raise damaged(file, error) from error


def verify(db: sqlite3.Connection, file: Path) -> None:
    """Raises if a file holds no run that can be read.

    Raises:
        ValueError: It is of a newer taiyi_fx, or no run.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise ValueError(f"{str(file)!r} is a SQLite file, but no run of taiyi_fx")
    if version > VERSION:
        raise ValueError(newer(file, version))


def stored_series(db: sqlite3.Connection) -> list[Stored]:
    """All series of a file, by their ids."""
    columns = ", ".join(Stored._fields[:-1] if is_without_health(db) else Stored._fields)
    return [Stored(*row) for row in db.execute(f"SELECT {columns} FROM series ORDER BY id")]


def is_without_health(db: sqlite3.Connection) -> bool:
    """True if a file's series have no column ``health`` yet: that of a run of schema 1."""
    return db.execute("PRAGMA user_version").fetchone() == (1,)


def _opened(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def damaged(file: Path, error: Exception) -> ValueError:
    """What to raise of a file that SQLite cannot make sense of."""
    return ValueError(f"{str(file)!r} is damaged, or no run: {error}")


def _numbers(values: list[Any]) -> NDArray[Any]:
    """Numbers of one series: int64, if need be Python's integers, or float64 with NaN for NULL."""
    kinds = set(map(type, values))
    if not kinds or not kinds <= {int, str}:
        return np.array(values, np.float64)
    whole = [int(v) for v in values]
    return np.array(whole, object if str in kinds else np.int64)
