"""The run store: all records of a run in one SQLite file, without a server."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from taiyi_fx.outline import Outline
from taiyi_fx.runs.damage import damaged, numbered, reading
from taiyi_fx.runs.journal import refuse_super_journal
from taiyi_fx.runs.packed import TRIGGERS, drop_columns, make_columns
from taiyi_fx.runs.schema import APPLICATION, SQLITE, TABLES, VERSION, as_bytes
from taiyi_fx.runs.sqlite import is_new, is_without_health, stored_series, verify
from taiyi_fx.writers.buffer import (
    Buffer,
    EpochEnded,
    StepEvent,
    StepNumbers,
    StepTensor,
    Transaction,
)
from taiyi_fx.writers.folder import folder_of, folder_of_part, note_part, run_exists
from taiyi_fx.writers.lock import Lock
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.replace import replace


class Store:
    """Keeps a run in ``run.sqlite`` in a folder of its own; `taiyi_fx.open_run` reads it.

    A run that begins at a step above 0 resumes the existing one, whose data at that step and later
    are dropped. Flushed data outlive the process, however it ends. Forks of the
    process write nothing. The records of a rank above 0, as a stage of a pipeline makes them, and
    of a model with a name as a part, are in a folder inside, ``rank<r>`` or that name;
    `taiyi_fx.open_run` reads all of one launch as one run.

    Args:
        path: The run's folder; created if missing.
        overwrite: Replace an existing run, if this one begins at step 0. Other files in the folder
            stay.

    Raises:
        TypeError: The path is not a path.
        ValueError: The path is empty.
    """

    takes_once = True

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._path = folder_of(path)
        self._overwrite = overwrite
        self._begun: tuple[int, tuple[int, ...]] = (-1, ())
        self._outlined: Outline | None = None
        self._is_done = False

    def open(self, run: RunInfo) -> None:
        """Makes the file, or opens the existing one to add to it.

        Raises:
            FileExistsError: It holds a run, and this one begins at step 0.
            BlockingIOError: Another writer has it open.
            OSError: The folder or the file cannot be written to.
            ValueError: The existing file is damaged, of a newer taiyi_fx, or not a run.
        """
        folder = folder_of_part(self._path, run)
        with ExitStack() as undo:
            self._lock = Lock(folder / "run.lock")
            undo.callback(self._lock.release)
            self._file = folder / SQLITE
            with reading(self._file):
                if self._overwrite and run.start_step == 0:
                    replace(self._file, lambda db: _add_session(db, self._file, run))
                self._db = _connect(self._file)
                undo.callback(self._db.close)
                self._session = _begin(self._db, folder, run)
                known = numbered(stored_series(self._db))
            note_part(folder, run)
            self._inode = _inode(self._file)
            self._outline = run.outline
            self._buffer = Buffer(run, known, self._commit)
            undo.pop_all()

    def write(self, batch: Batch) -> None:
        """Adds a batch in memory; commits when a million numbers wait there.

        Raises:
            ValueError: A step or an epoch has more than 64 bits, or a tensor has 10⁹ bytes; the
                rest is kept.
        """
        self._buffer.add(batch)

    def flush(self) -> None:
        """Commits all waiting data, in transactions of 250,000 numbers.

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
            if not self._is_done:
                self._finish()
        except Exception:
            self._release()
            raise
        self._release()  # not after an interrupt: what still waits is written when it comes again

    def _finish(self) -> None:
        self._buffer.drain(is_last=True)
        try:
            self._transact(lambda: make_columns(self._db))
        except (OverflowError, TypeError, ValueError) as error:  # of cells that are not numbers
            raise damaged(self._file, error) from error
        self._db.execute("PRAGMA busy_timeout = 0")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Read-only media can then hold it as one file; while others read, it stays in WAL mode.
        # As in `_keep_a_log`, the mode changes without a journal.
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA journal_mode = MEMORY")

    def _release(self) -> None:
        self._is_done = True
        self._db.close()
        self._lock.release()

    def _keep_outline(self) -> None:
        """Commits the outline where it has changed."""
        outline = self._outline()
        if outline is self._outlined or self._buffer.is_fork:
            return
        text = json.dumps(outline.to_json())

        def put() -> None:
            self._db.execute("DELETE FROM outline")
            self._db.execute("INSERT INTO outline VALUES (?)", (text,))

        self._transact(put)
        self._outlined = outline

    def _commit(self, new: Transaction) -> None:
        self._transact(lambda: self._write(new))

    def _write(self, new: Transaction) -> None:
        extent = _extent(self._db)
        if self._begun[0] == new.number and self._begun[1] != extent:
            return  # it was committed already, and an interrupt came right after
        self._begun = new.number, extent
        self._db.executemany("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new.series)
        for kind, group in itertools.groupby(new.items, type):
            _WRITE[kind](self._db, group)

    def _transact(self, action: Callable[[], object]) -> None:
        """Runs an action as a transaction, while this is the writer of the file.

        The lock keeps others out, unless its file was deleted. So each transaction also checks that
        its session is still the last one: after another session has begun, and has dropped steps to
        make them again, data written here would be there twice.
        """

        def checked() -> None:
            last = self._db.execute("SELECT max(rowid) FROM run").fetchone()
            if last != (self._session,) or _inode(self._file) != self._inode:
                raise BlockingIOError(
                    f"another writer has taken over {str(self._file)!r}, whose lock was deleted: "
                    "this one writes nothing more"
                )
            action()

        if not self._file.exists():
            raise FileNotFoundError(f"{str(self._file)!r} was deleted, and its content is lost")
        try:
            _transact(self._db, checked)
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:  # such as that the disk is full
                raise
            raise damaged(self._file, error) from error


def _inode(file: Path) -> tuple[int, int]:
    """The identity of a file, which one that replaces it does not have."""
    found = file.stat()
    return found.st_dev, found.st_ino


def _connect(file: Path) -> sqlite3.Connection:
    refuse_super_journal(file)
    if file.is_symlink() and not file.exists():
        raise ValueError(f"{str(file)!r} is a link to a missing file: the run would be made there")
    # Garbage collection may end a monitor, and with it this connection, in another thread.
    try:
        db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise OSError(f"{str(file)!r} cannot be opened: {error}") from error
    db.execute("PRAGMA trusted_schema = OFF")  # SQL in the file must not call functions
    return db


def _begin(db: sqlite3.Connection, folder: Path, run: RunInfo) -> int:
    """Begins a session; returns its row."""
    file = folder / SQLITE
    if not is_new(db, file):
        verify(db, file)
        _refuse_triggers(db, file)
        if run.start_step == 0:
            _refuse(db, folder)
    try:
        _keep_a_log(db)
        _transact(db, lambda: _add_session(db, file, run))
    except sqlite3.OperationalError as error:
        raise OSError(f"cannot write to {str(file)!r}: {error}") from error
    return db.execute("SELECT max(rowid) FROM run").fetchone()[0]


def _keep_a_log(db: sqlite3.Connection) -> None:
    """Sets the mode in which a file is never half changed: new data go to a log beside it.

    The mode stands in the file's first page, and SQLite would keep a rollback journal while it
    writes that page alone. In memory the journal can do without a file: one page is written or not.
    So a run has a rollback journal at no time, and without one no reader can miss it.

    Raises:
        sqlite3.OperationalError: The file is read by others, cannot be written to, or is on a
            system without shared memory.
    """
    if db.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    db.execute("PRAGMA journal_mode = MEMORY")
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(f"it stays in the journal mode {mode}, not WAL")


def _add_session(db: sqlite3.Connection, file: Path, run: RunInfo) -> None:
    if is_new(db, file):
        _create(db)
    elif is_without_health(db):
        db.execute("ALTER TABLE series ADD COLUMN health TEXT DEFAULT ''")
        db.execute(f"PRAGMA user_version = {VERSION}")
    (last,) = db.execute("SELECT coalesce(max(rowid), 0) FROM run").fetchone()
    _cut(db, run.start_step)
    # By the time, no session ever has the row of one that was dropped.
    row = max(last + 1, time.time_ns())
    texts = (run.model, json.dumps(run.config), json.dumps(run.versions), str(run.seed))
    names = "rowid, start_step, model, config, versions, seed"
    db.execute(
        f"INSERT INTO run ({names}) VALUES (?, ?, ?, ?, ?, ?)", (row, run.start_step, *texts)
    )


def _create(db: sqlite3.Connection) -> None:
    for statement in TABLES.split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def _refuse_triggers(db: sqlite3.Connection, file: Path) -> None:
    """Raises if the file has triggers, which writing would run, other than a run's own."""
    for name, text in db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"):
        if text not in TRIGGERS:
            raise ValueError(f"{str(file)!r} is damaged: it has the trigger {name!r}")


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


def _transact(db: sqlite3.Connection, action: Callable[[], None]) -> None:
    """Runs an action as a transaction: all of it or, whatever is raised, nothing."""
    if db.in_transaction:  # an interrupt came before the one that was under way was ended
        db.execute("ROLLBACK")
    try:
        db.execute("BEGIN IMMEDIATE")
        action()
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
