"""The folder of a run, and that of each part of it."""

from __future__ import annotations

import os
from pathlib import Path

from taiyi_fx.runs.part import folder_name, note_launch
from taiyi_fx.writers.protocol import RunInfo


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


def folder_of_part(folder: Path, run: RunInfo) -> Path:
    """The folder of one part, made where it is missing: of a name, or of a rank.

    Raises:
        OSError: It cannot be made.
    """
    own = folder / folder_name(run.part, run.rank)
    own.mkdir(parents=True, exist_ok=True)
    return own


def folder_of_rank(folder: Path, rank: int) -> Path:
    """The folder of one rank, made where it is missing.

    Raises:
        OSError: It cannot be made.
    """
    own = folder / folder_name("", rank)
    own.mkdir(parents=True, exist_ok=True)
    return own


def note_part(folder: Path, run: RunInfo) -> None:
    """Notes in a part's folder the launch that writes it.

    Raises:
        OSError: It cannot be written.
        ValueError: What is there is damaged.
    """
    note_launch(folder, run.part, run.rank, run.launch, resumes=run.start_step > 0)


def run_exists(folder: Path, model: str, first: int, last: int, writer: str) -> FileExistsError:
    """The error for a folder with another run, which would be lost."""
    return FileExistsError(
        f"{str(folder)!r} holds a run of {model} already, steps {first} to {last}. Give another "
        f'folder; or go on with it, by resume="auto" or start_step={last + 1} (or less, which '
        "drops later steps; a trainer does so from its checkpoint); or replace it, by "
        f"overwrite=True, which a writer of your own takes itself: {writer}(path, overwrite=True)"
    )
