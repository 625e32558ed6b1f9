"""A lock for one writer at a time, which ends with its process, however that ends."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class Lock:
    """A lock that is held from its construction until `release`; its empty file stays.

    It is SQLite's lock of a database, which works on all systems, is not inherited by forked
    processes, and keeps out other writers of the same process as well.

    Args:
        file: The file of the lock.

    Raises:
        BlockingIOError: Another writer holds it.
        OSError: The folder cannot be written to.
        ValueError: The file holds something, which SQLite would take for a database.
    """

    def __init__(self, file: Path) -> None:
        if file.is_symlink() or (file.exists() and not _is_empty(file)):
            raise ValueError(
                f"{str(file)!r} is not the lock of a run, which is an empty file: delete it"
            )
        file.touch()  # its error names the file and the reason, SQLite's would not
        # Closed by another thread, where garbage collection ends a monitor.
        self._held = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._held.close()
            if "locked" not in str(error):
                raise
            raise BlockingIOError(
                f"another writer has {str(file.parent)!r} open, in this process or another: end "
                "it with monitor.close(), or give this one another folder, or where models write "
                'one run together each a name, part="..."'
            ) from error

    def release(self) -> None:
        """Frees the folder for another writer."""
        self._held.close()


def _is_empty(file: Path) -> bool:
    return file.is_file() and file.stat().st_size == 0
