"""A run opened for reading, in SQLite or in Parquet."""

from __future__ import annotations

import os
from pathlib import Path

from taiyi_fx.runs.run import Run
from taiyi_fx.runs.schema import PARQUET, SQLITE
from taiyi_fx.runs.sqlite import SqliteSource


def open_run(path: str | os.PathLike[str]) -> Run:
    """A run opened for reading, also while it is being written, or after a crash.

    Args:
        path: Its folder, as given to `instrument` with ``run=``, or the file in it.

    Raises:
        FileNotFoundError: There is no run.
        ImportError: It is in Parquet, and pyarrow is not installed.
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    if not os.fspath(path):
        raise FileNotFoundError("no run in '': give its folder")
    folder = Path(path).absolute()
    if folder.name in (SQLITE, PARQUET) and not folder.is_dir():
        folder = folder.parent
    if (folder / SQLITE).exists():
        return Run(folder, SqliteSource(folder / SQLITE))
    if (folder / PARQUET).exists():
        from taiyi_fx.runs.parquet import ParquetSource

        return Run(folder, ParquetSource(folder))
    raise FileNotFoundError(f"no run in {str(path)!r}: {_contents(folder)}")


def _contents(folder: Path) -> str:
    """A text that says what the folder holds instead of a run."""
    if not folder.is_dir():
        return "there is no such folder"
    inside = sorted(f.parent.name for name in (SQLITE, PARQUET) for f in folder.glob(f"*/{name}"))
    shown = ", ".join(map(repr, inside[:8])) + (", ..." if len(inside) > 8 else "")
    return f"it holds the runs {shown}" if inside else f"it has neither {SQLITE} nor {PARQUET}"
