"""One writer at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class Lock:
    """Held from its making until `release`; the empty file stays.

    SQLite's own lock of a database: it works on all systems, forked processes don't inherit it,
    and it keeps out others of the same process too.

    Args:
        file: What stands for the lock.

    Raises:
        BlockingIOError: Another writer holds it.
        OSError: The folder cannot be written to.
    """

    def __init__(self, file: Path) -> None:
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
                "it with monitor.close(), or give this one another folder"
            ) from error

    def release(self) -> None:
        """Lets another writer in."""
        self._held.close()
