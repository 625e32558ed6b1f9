"""The run store: all records of a run in one SQLite file, without a server."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from taiyi_fx.outline import Outline
from taiyi_fx.runs.packed import drop_columns, make_columns
from taiyi_fx.runs.schema import APPLICATION, SQLITE, TABLES, VERSION, as_bytes
from taiyi_fx.runs.sqlite import damaged, is_new, is_without_health, stored_series, verify
from taiyi_fx.writers.buffer import (
    Buffer,
    EpochEnded,
    StepEvent,
    StepNumbers,
    StepTensor,
    Transaction,
)
from taiyi_fx.writers.folder import folder_of, of_rank, run_exists
from taiyi_fx.writers.lock import Lock
from taiyi_fx.writers.protocol import Batch, RunInfo


class Store:
    """Keeps a run in ``run.sqlite`` in a folder of its own; `taiyi_fx.open_run` reads it.

    A run that begins at a step above 0 resumes the one that is there, whose data of that step and
    of later ones are dropped. Flushed data outlive the process, however it ends. Forks of the
    process write nothing. The records of a rank above 0, as a stage of a pipeline makes them, are
    a run of their own in the folder ``rank<r>`` inside.

    Args:
        path: The run's folder; made if it is not there.
        overwrite: Replace a run that is there.

    Raises:
        TypeError: The path is not a path.
        ValueError: The path is empty.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._path = folder_of(path)
        self._overwrite = overwrite
        self._begun: tuple[int, tuple[int, ...]] = (-1, ())
        self._outlined: Outline | None = None

    def open(self, run: RunInfo) -> None:
        """Makes the file, or opens the one that is there to add to it.

        Raises:
            FileExistsError: It holds a run, and this one begins at step 0.
            BlockingIOError: Another writer has it open.
            OSError: The folder or the file cannot be written to.
            ValueError: The file there is damaged, of a newer taiyi_fx, or no run.
        """
        folder = of_rank(self._path, run.rank)
        with ExitStack() as undo:
            self._lock = Lock(folder / "run.lock")
            undo.callback(self._lock.release)
            self._file = folder / SQLITE
            self._db = _connect(self._file, overwrite=self._overwrite)
            undo.callback(self._db.close)
            _begin(self._db, folder, run)
            self._outline = run.outline
            self._buffer = Buffer(run, stored_series(self._db), self._commit)
            undo.pop_all()

    def write(self, batch: Batch) -> None:
        """Adds a batch in memory; commits when a million numbers wait there.

        Raises:
            ValueError: A step or an epoch has more than 64 bits, or a tensor has 10⁹ bytes; the
                rest is kept.
        """
        self._buffer.add(batch)

    def flush(self) -> None:
        """Commits what waits, in transactions of 250,000 numbers.

        Raises:
            FileNotFoundError: The file was deleted.
            sqlite3.Error: It cannot be written to; the next flush tries again.
            BufferError: It cannot be written to, and more than four million numbers wait: the
                oldest are lost.
        """
        self._buffer.drain()
        self._keep_outline()

    def close(self) -> None:
        """Commits the rest, and makes the columns that numbers are read from.

        Raises:
            BufferError: The rest cannot be written, and is lost.
            sqlite3.Error: There is no room for the columns.
        """
        if self._buffer.is_fork:
            return
        try:
            self._buffer.drain(is_last=True)
            with _transaction(self._db):
                make_columns(self._db)
            self._db.execute("PRAGMA busy_timeout = 0")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # Read-only media can then hold it as one file; while others read, it stays in WAL mode.
            with suppress(sqlite3.OperationalError):
                self._db.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._db.close()
            self._lock.release()

    def _keep_outline(self) -> None:
        """Commits the outline where it has changed."""
        outline = self._outline()
        if outline is self._outlined or self._buffer.is_fork:
            return
        with _transaction(self._db):
            self._db.execute("DELETE FROM outline")
            self._db.execute("INSERT INTO outline VALUES (?)", (json.dumps(outline.to_json()),))
        self._outlined = outline

    def _commit(self, new: Transaction) -> None:
        if not self._file.exists():
            raise FileNotFoundError(f"{str(self._file)!r} was deleted, and its content is lost")
        extent = _extent(self._db)
        if self._begun[0] == new.number and self._begun[1] != extent:
            return  # it was committed already, and an interrupt came right after
        self._begun = new.number, extent
        with _transaction(self._db):
            self._db.executemany("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new.series)
            for kind, group in itertools.groupby(new.items, type):
                _WRITE[kind](self._db, group)


def _connect(file: Path, *, overwrite: bool) -> sqlite3.Connection:
    if overwrite:
        for end in ("", "-wal", "-shm", "-journal"):
            file.with_name(file.name + end).unlink(missing_ok=True)
    # Garbage collection may end a monitor, and with it this connection, in another thread.
    try:
        return sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise OSError(f"{str(file)!r} cannot be opened: {error}") from error


def _begin(db: sqlite3.Connection, folder: Path, run: RunInfo) -> None:
    file = folder / SQLITE
    if not is_new(db, file):
        verify(db, file)
        if run.start_step == 0:
            _refuse(db, folder)
    try:
        with _transaction(db):
            if is_new(db, file):
                _create(db)
            elif is_without_health(db):
                db.execute("ALTER TABLE series ADD COLUMN health TEXT DEFAULT ''")
                db.execute(f"PRAGMA user_version = {VERSION}")
            _cut(db, run.start_step)
            texts = (run.model, json.dumps(run.config), json.dumps(run.versions), str(run.seed))
            db.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?)", (run.start_step, *texts))
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        raise OSError(f"cannot write to {str(file)!r}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise damaged(file, error) from error


def _create(db: sqlite3.Connection) -> None:
    for statement in TABLES.split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def _refuse(db: sqlite3.Connection, folder: Path) -> None:
    """Raises if there are numbers, tensors or events."""
    every = " UNION ALL ".join(f"SELECT step FROM {t}" for t in ("point", "tensor", "event"))
    first, last = db.execute(f"SELECT min(step), max(step) FROM ({every})").fetchone()
    if first is not None:
        (model,) = db.execute("SELECT model FROM run ORDER BY rowid DESC").fetchone()
        raise run_exists(folder, model, first, last, "Store")


def _cut(db: sqlite3.Connection, start: int) -> None:
    """Drops rows at a step and later ones, and all columns."""
    drop_columns(db)
    for table in ("point", "tensor", "event"):
        db.execute(f"DELETE FROM {table} WHERE step >= ?", (start,))
    db.execute("DELETE FROM epoch WHERE last >= ?", (start,))
    # An epoch without numbers stays; its last rows may be among those that were dropped.
    for table in ("point", "tensor"):
        last = f"(SELECT coalesce(max(rowid), 0) FROM {table})"
        db.execute(f"UPDATE epoch SET last_{table} = min(last_{table}, {last})")
    db.execute("DELETE FROM run WHERE start_step >= ?", (start,))
    db.execute("DROP INDEX IF EXISTS point_of_series")  # of runs of earlier versions


def _extent(db: sqlite3.Connection) -> tuple[int, ...]:
    """The last row of each table. While a run is written, tables only grow."""
    tables = "series", "point", "tensor", "event", "epoch"
    lasts = ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {table})" for table in tables)
    return db.execute(f"SELECT {lasts}").fetchone()


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # on a full disk SQLite has rolled back by itself
            db.execute("ROLLBACK")
        raise


_ROWS = 200
"""Points in one statement: one at a time takes three times as long."""


def _write_numbers(db: sqlite3.Connection, items: Iterable[StepNumbers]) -> None:
    flat = itertools.chain.from_iterable
    cells = flat(flat(map(_rows, items)))
    while group := list(itertools.islice(cells, 4 * _ROWS)):
        rows = ", ".join(["(?, ?, ?, ?)"] * (len(group) // 4))
        db.execute(f"INSERT INTO point VALUES {rows}", group)


def _rows(x: StepNumbers) -> Iterator[tuple[Any, ...]]:
    values = x.values
    if set(map(type, values)) != {float}:
        values = [v if -(2**63) <= v < 2**63 or isinstance(v, float) else str(v) for v in values]
    step, epoch = itertools.repeat(x.step), itertools.repeat(x.epoch)
    return zip(step, epoch, x.series, values)  # noqa: B905 - two of them have no end


def _write_arrays(db: sqlite3.Connection, items: Iterable[StepTensor]) -> None:
    rows = (
        (step, epoch, series, x.dtype.name, json.dumps(x.shape), as_bytes(x))
        for step, epoch, series, x in items
    )
    db.executemany("INSERT INTO tensor VALUES (?, ?, ?, ?, ?, ?)", rows)


def _write_events(db: sqlite3.Connection, items: Iterable[StepEvent]) -> None:
    db.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", items)


def _write_epochs(db: sqlite3.Connection, items: Iterable[EpochEnded]) -> None:
    """Adds the row of an epoch, and gives it its number, which is known only at its end."""
    for expected, number in items:
        (point, tensor) = db.execute(
            "SELECT coalesce(max(last_point), 0), coalesce(max(last_tensor), 0) FROM epoch"
        ).fetchone()
        if number != expected:
            for table, last in (("point", point), ("tensor", tensor)):
                db.execute(
                    f"UPDATE {table} SET epoch = ? WHERE epoch = ? AND rowid > ?",
                    (number, expected, last),
                )
        db.execute(
            "INSERT INTO epoch SELECT ?, min(step), max(step), coalesce(max(rowid), ?), "
            "(SELECT coalesce(max(rowid), 0) FROM tensor) FROM point WHERE rowid > ?",
            (number, point, point),
        )


_WRITE: Mapping[type, Callable[[sqlite3.Connection, Any], None]] = {
    StepNumbers: _write_numbers,
    StepTensor: _write_arrays,
    StepEvent: _write_events,
    EpochEnded: _write_epochs,
}
