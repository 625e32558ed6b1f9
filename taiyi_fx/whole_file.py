"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A path to write to, which becomes the file when the body has run; links stay.

    Raises:
        OSError: The file cannot be replaced, or is there and is no regular file: a folder, or a
            device, which would be gone.
    """
    if file.exists() and not file.is_file():
        raise OSError(f"{str(file)!r} is there and is no regular file: give another name")
    file = Path(os.path.realpath(file))
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
