"""A run opened for reading, in SQLite or in Parquet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from taiyi_fx.runs.joined import JoinedSource, NamedSource
from taiyi_fx.runs.part import Part, part_in, parts_of
from taiyi_fx.runs.run import Run
from taiyi_fx.runs.schema import PARQUET, SQLITE
from taiyi_fx.runs.source import RunSource
from taiyi_fx.runs.sqlite import SqliteSource


def open_run(path: str | os.PathLike[str]) -> Run:
    """A run opened for reading, also while it is being written, or after a crash.

    Parts that several ranks or models of one launch wrote are one run.

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
    parts = parts_of(folder)
    if parts and parts != [part_in(folder)]:
        return Run(folder, _joined(parts))
    source = _source(folder)
    if source is None:
        raise FileNotFoundError(f"no run in {str(path)!r}: {_contents(folder)}")
    return Run(folder, source)


def _joined(parts: Sequence[Part]) -> RunSource:
    """The source of a run in parts; none of their files stays open if one cannot be read."""
    with ExitStack() as opened:
        found: list[NamedSource] = []
        for part in parts:
            source = _source(part.folder)
            if source is None:
                raise FileNotFoundError(f"{str(part.folder)!r} was deleted, a part of this run")
            opened.callback(source.close)
            found.append(NamedSource(part.label, bool(part.name), source))
        opened.pop_all()
    return JoinedSource(found)


def _source(folder: Path) -> RunSource | None:
    """The source of the run in a folder itself; None where there is none."""
    if (folder / SQLITE).exists():
        return SqliteSource(folder / SQLITE)
    if (folder / PARQUET).exists():
        from taiyi_fx.runs.parquet import ParquetSource

        return ParquetSource(folder)
    return None


def _contents(folder: Path) -> str:
    """A text that says what the folder holds instead of a run."""
    if not folder.is_dir():
        return "there is no such folder"
    inside = sorted(f.parent.name for name in (SQLITE, PARQUET) for f in folder.glob(f"*/{name}"))
    shown = ", ".join(map(repr, inside[:8])) + (", ..." if len(inside) > 8 else "")
    return f"it holds the runs {shown}" if inside else f"it has neither {SQLITE} nor {PARQUET}"
