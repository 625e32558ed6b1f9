"""Runs in SQLite, read while they are written, after a crash, or from read-only media."""

from __future__ import annotations

import json
import math
import operator
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.told import Told
from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.damage import checked, checked_session, damaged, names_the_file, reading
from taiyi_fx.runs.journal import journal_of, refuse_super_journal
from taiyi_fx.runs.packed import PACKED, columns_of, packed_until, points_of, spans_of
from taiyi_fx.runs.schema import (
    APPLICATION,
    VERSION,
    Session,
    StoredSeries,
    as_array,
    as_shape,
    from_text,
    newer,
)
from taiyi_fx.runs.source import Changed, Curve, EpochSpan, Points, Slice, Span, merge_spans
from taiyi_fx.runs.telling import told_in

_POINT = [
    ("rowid", np.int64),
    ("step", np.int64),
    ("epoch", np.int64),
    ("series", np.int64),
    ("value", np.float64),
]

_SLICE_ROW = [("step", np.int64), ("series", np.int64), ("value", np.float64)]
_SLICE = 500_000
"""Numbers in a slice: some 20 MB."""

_LIMIT_SECONDS = 300.0
"""The time after which a query is stopped: a file made to do harm may have one without end."""
_STEPS_BETWEEN_CHECKS = 1_000_000
"""Instructions of SQLite's virtual machine between checks of the time: some ten milliseconds."""

_TRIES = 20
_LOG_HEAD = 32
"""The bytes of a write-ahead log's head, with salts that change as it begins anew."""

_TABLES = ("run", "series", "point", "tensor", "event", "epoch", "outline")


class SqliteSource:
    """A run's SQLite file, opened for reading.

    Args:
        file: The file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, of a newer taiyi_fx, or not a run.
    """

    def __init__(self, file: Path) -> None:
        file.open("rb").close()  # its error names the reason, SQLite's would not
        self._file = file
        self._deadline = math.inf
        self._copies: TemporaryDirectory[str] | None = None
        self._db = self._connect()
        try:
            with reading(file):
                if is_new(self._db, file):
                    raise ValueError(f"{str(file)!r} is empty: its run ended before it wrote")
                verify(self._db, file)
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> Path:
        """The run's SQLite file, which errors name."""
        return self._file

    @names_the_file
    def sessions(self) -> list[Session]:
        """The sessions that wrote the run, in their order."""
        rows = self._rows("SELECT start_step, model, config, versions, seed FROM run")
        return [
            checked_session(Session(at, m, json.loads(c), json.loads(v), int(s)))
            for at, m, c, v, s in rows
        ]

    @names_the_file
    def series(self) -> list[StoredSeries]:
        """All series, by their ids."""
        return stored_series(self._db)

    @names_the_file
    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        parts = [points for points, _ in points_of(self._db, series)]
        which = "" if series is None else f" AND series IN ({', '.join(map(str, series))})"
        text = f"SELECT rowid, step, epoch, series, value FROM point WHERE rowid > ?{which}"
        # Straight from the cursor: garbage collection goes through tuples that are kept. As float64
        # numpy takes None, which is NULL, for NaN, and digits for their number.
        table = np.fromiter(self._cursor(text, (packed_until(self._db),)), _POINT)
        table = table[np.argsort(table["rowid"], kind="stable")]
        parts.append(Points(*(table[name] for name in Points._fields)))
        return Points(*map(np.concatenate, zip(*parts, strict=True)))

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those after an earlier slice's mark, slice by slice.

        Raises:
            Changed: The row at the mark is gone, or another one.
        """
        text = "SELECT step, series, value FROM point WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        done = self._verified(mark)
        packed = points_of(self._db, after=done)
        while points := self._next(packed):
            numbers, done = points
            yield Slice(numbers.series, numbers.step, numbers.value, (done, *self._point(done)))
        while done < (last := self._last_point()):
            until = min(done + _SLICE, last)
            with reading(self._file):
                table = np.fromiter(self._cursor(text, (done, until)), _SLICE_ROW)
            done = until
            names = ("series", "step", "value")
            series, step, value = (np.ascontiguousarray(table[name]) for name in names)
            yield Slice(series, step, value, (done, *self._point(done)))

    def _next(self, packed: Iterator[tuple[Points, int]]) -> tuple[Points, int] | None:
        with reading(self._file):
            return next(packed, None)

    def _verified(self, mark: tuple[Any, ...]) -> int:
        """The row at a mark, where it still holds the same number."""
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

    @names_the_file
    def curve(self, series: int) -> Curve:
        """The numbers of a series by step; several at one step in the order they were made."""
        packed = columns_of(self._db, series)
        text = "SELECT step, value FROM point WHERE series = ? AND rowid > ? ORDER BY rowid"
        rows = self._rows(text, (series, packed_until(self._db)))
        steps = [*(x.step for x in packed), np.array([step for step, _ in rows], np.int64)]
        values = [*(x.value for x in packed), _numbers([value for _, value in rows])]
        step = np.concatenate(steps)
        order = np.argsort(step, kind="stable")
        return Curve(step[order], _joined([x for x in values if len(x)])[order])

    @names_the_file
    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """The tensors of a series at some steps, or at all; of several at one step the last."""
        text = "SELECT step, dtype, shape, data FROM tensor WHERE series = ?"
        text += "" if steps is None else f" AND step IN ({', '.join(map(str, steps))})"
        rows = self._rows(f"{text} ORDER BY rowid", (series,))
        return {
            operator.index(step): as_array(data, dtype, json.loads(shape))
            for step, dtype, shape, data in rows
        }

    @names_the_file
    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """The shapes of tensors by step, for each series that has some."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        for series, step, shape in self._rows("SELECT series, step, shape FROM tensor"):
            found.setdefault(operator.index(series), {})[operator.index(step)] = as_shape(
                json.loads(shape)
            )
        return found

    @names_the_file
    def spans(self) -> dict[int, Span]:
        """The count of values of each series, with their first and last step."""
        text = (
            "SELECT series, count(*), min(step), max(step) FROM {} WHERE rowid > ? GROUP BY series"
        )
        after = {"point": packed_until(self._db), "tensor": 0}
        rows = [
            row for table, last in after.items() for row in self._rows(text.format(table), (last,))
        ]
        every = [*spans_of(self._db), *((series, Span(*rest)) for series, *rest in rows)]
        return merge_spans((series, checked(span)) for series, span in every)

    @names_the_file
    def events(self) -> list[Event]:
        """Warnings, and sites of NaN or Inf."""
        rows = self._rows("SELECT step, kind, module, text FROM event ORDER BY rowid")
        return [
            checked(Event(step, kind, from_text(m), from_text(text)))
            for step, kind, m, text in rows
        ]

    @names_the_file
    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        rows = self._rows("SELECT number, first, last FROM epoch ORDER BY rowid")
        return [checked(EpochSpan(*row)) for row in rows]

    def scan(self) -> None:
        """None: SQLite gives rows one by one."""

    @names_the_file
    def told(self) -> list[Told]:
        """The findings of the monitor when it last looked."""
        return [told_in(self.events(), self.sessions())]

    @names_the_file
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
        refuse_super_journal(self._file)
        db = _opened(f"{self._file.as_uri()}?mode=ro")
        try:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
        except (
            sqlite3.DatabaseError,
            UnicodeDecodeError,
        ) as error:  # SQLite's messages quote the file
            db.close()
            if "unable to open" in str(error) or "readonly" in str(error):
                return self._connect_to_copy()
            raise damaged(self._file, error) from error
        return db

    def _connect_to_copy(self) -> sqlite3.Connection:
        """A connection to a copy, where SQLite would have to write to read.

        A crash left a log in a folder that cannot be written to, or a journal by which an older
        version of this package was changing the file. Without them the file may be a mixture.
        """
        self._copies = TemporaryDirectory()
        copy = Path(self._copies.name) / self._file.name
        for _ in range(_TRIES):
            before = self._generation()
            for end in ("", "-wal"):
                _copy(self._file.with_name(self._file.name + end), copy.with_name(copy.name + end))
            _copy(journal_of(self._file), journal_of(copy))
            if self._generation() == before:
                refuse_super_journal(copy)
                return _opened(copy.as_uri())
        raise TimeoutError(f"{str(self._file)!r} changed while it was copied to be read: try again")

    def _generation(self) -> tuple[Any, ...]:
        """A mark that changes when a copy of the file and a later one of its log may not match.

        A log that keeps its head only grows, and data moved from it to the file stay in it.
        """
        log = self._file.with_name(f"{self._file.name}-wal")
        head = b""
        if log.exists():
            with log.open("rb") as opened:
                head = opened.read(_LOG_HEAD)
        return head, _written(journal_of(self._file)), None if head else _written(self._file)

    @names_the_file
    def _rows(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._cursor(text, values).fetchall()

    def _cursor(self, text: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._deadline = time.monotonic() + _LIMIT_SECONDS
        self._db.set_progress_handler(self._stop_when_late, _STEPS_BETWEEN_CHECKS)
        return self._db.execute(text, values)

    def _stop_when_late(self) -> bool:
        return time.monotonic() > self._deadline


def is_new(db: sqlite3.Connection, file: Path) -> bool:
    """True if a file has no tables yet.

    Raises:
        ValueError: It is damaged, or not a SQLite file.
    """
    try:
        return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise damaged(file, error) from error


def verify(db: sqlite3.Connection, file: Path) -> None:
    """Raises unless a file holds a run that this version can read.

    Raises:
        ValueError: It is of a newer taiyi_fx, or not a run.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise ValueError(f"{str(file)!r} is a SQLite file, but not a run of taiyi_fx")
    if version > VERSION:
        raise ValueError(newer(file, version))
    kinds = dict(db.execute("SELECT name, type FROM sqlite_master"))
    for name in (*_TABLES, *(kinds.keys() & {PACKED})):
        if kinds.get(name) != "table":
            raise ValueError(f"{str(file)!r} is damaged: {name!r} is not a table")


def stored_series(db: sqlite3.Connection) -> list[StoredSeries]:
    """All series of a file, by their ids."""
    columns = ", ".join(
        StoredSeries._fields[:-1] if is_without_health(db) else StoredSeries._fields
    )
    return [
        checked(StoredSeries(*row))
        for row in db.execute(f"SELECT {columns} FROM series ORDER BY id")
    ]


def is_without_health(db: sqlite3.Connection) -> bool:
    """True if a file's series have no column ``health`` yet: that of a run of schema 1."""
    return db.execute("PRAGMA user_version").fetchone() == (1,)


def _opened(address: str) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, check_same_thread=False)
    db.execute("PRAGMA trusted_schema = OFF")  # SQL in the file must not call functions
    return db


def _copy(file: Path, copy: Path) -> None:
    """Makes a copy of a file; none where there is no such file."""
    copy.unlink(missing_ok=True)
    if file.exists():
        shutil.copyfile(file, copy)


def _written(file: Path) -> tuple[int, int] | None:
    """The time and the size of a file's last change; None where there is no such file."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Numbers of one series; float64 if some of them are."""
    kinds = {x.dtype for x in parts}
    if not kinds or np.dtype(np.float64) in kinds:
        return np.concatenate([np.empty(0), *(x.astype(np.float64) for x in parts)])
    return np.concatenate(parts)


def _numbers(values: list[Any]) -> NDArray[Any]:
    """Numbers of one series: int64, if need be Python's integers, or float64 with NaN for NULL."""
    kinds = set(map(type, values))
    if not kinds or not kinds <= {int, str}:
        return np.array(values, np.float64)
    whole = [int(v) for v in values]
    return np.array(whole, object if str in kinds else np.int64)
