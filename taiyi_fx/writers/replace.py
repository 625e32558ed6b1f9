"""Replacing a run's SQLite file: at each moment the old run is there, or the new one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from taiyi_fx.runs.journal import refuse_super_journal
from taiyi_fx.runs.schema import APPLICATION


def replace(file: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Puts a new file in the place of a run's, and of what SQLite keeps beside it.

    Args:
        file: The file, which may be missing.
        fill: Writes the new one's tables.

    Raises:
        ValueError: The file is a SQLite database of another program.
    """
    if file.exists():
        _fold_log(file)
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)  # of a process that was killed in here
    with closing(sqlite3.connect(new, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("BEGIN")
        fill(db)
        db.execute("COMMIT")
    for end in ("-wal", "-shm", "-journal"):  # else SQLite would apply them to the new file
        file.with_name(file.name + end).unlink(missing_ok=True)
    new.replace(file)


def _fold_log(file: Path) -> None:
    """Writes what stands in a run's log into its file, so that the log is not needed.

    Of a damaged file nothing is kept, and a journal that may have been made to do harm is not run.
    """
    try:
        refuse_super_journal(file)
    except ValueError:
        return
    with closing(sqlite3.connect(file, isolation_level=None)) as db, suppress(sqlite3.Error):
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION and db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise ValueError(
                f"{str(file)!r} is a SQLite file, but not a run of taiyi_fx: it is not replaced"
            )
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
