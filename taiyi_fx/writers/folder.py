"""The folder of a run, and that of each rank in it."""

from __future__ import annotations

import os
from pathlib import Path


def folder_of(path: str | os.PathLike[str]) -> Path:
    """A run's folder as an absolute path, which stays right when the process changes directory.

    Raises:
        TypeError: It is not a path.
        ValueError: It is empty.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a run is kept in a folder: a path belongs here, not {path!r}")
    if not os.fspath(path):
        raise ValueError("a run is kept in a folder of its own: the path is empty")
    return Path(path).absolute()


def of_rank(folder: Path, rank: int) -> Path:
    """The folder of one rank, made where it is missing.

    Raises:
        OSError: It cannot be made.
    """
    own = folder / f"rank{rank}" if rank else folder
    own.mkdir(parents=True, exist_ok=True)
    return own


def run_exists(folder: Path, model: str, first: int, last: int, writer: str) -> FileExistsError:
    """The error for a folder with another run, which would be lost."""
    return FileExistsError(
        f"{str(folder)!r} holds a run of {model} already, steps {first} to {last}. Give another "
        f'folder; or go on with it, by resume="auto" or start_step={last + 1} (or less, which '
        "drops later steps; a trainer does so from its checkpoint); or replace it, by "
        f"overwrite=True, of a writer {writer}(path, overwrite=True)"
    )
