"""Files that are written completely or not at all."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NUMBERS = itertools.count()


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """A path to write to, which replaces the file when the body has run; links stay.

    Raises:
        FileNotFoundError: There is no folder for it.
        OSError: The file cannot be replaced, or exists and is not a regular file: a folder, or a
            device, which would be lost.
    """
    check_place(file)
    file = Path(os.path.realpath(file))
    # A signal's handler, or a thread, may write the same file while this one is under way.
    part = file.with_name(f".{file.name}.{os.getpid()}-{next(_NUMBERS)}.part")
    try:
        yield part
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def check_place(file: Path) -> None:
    """Raises where `atomic_write` would; call it before work that takes long.

    Raises:
        FileNotFoundError: There is no folder for it.
        OSError: The path is not a regular file.
    """
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(file.parent)!r} for {file.name}")
    if file.exists() and not file.is_file():
        raise OSError(f"{str(file)!r} exists and is not a regular file: give another name")
