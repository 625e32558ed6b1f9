"""Text files that a run goes on with after a restart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO


class Continued:
    """A text file of lines, written behind those of its old lines that are kept.

    Args:
        path: The file; its folder is made if there is none.
        keep: Takes the old file's lines, with their ends, and gives those that stay. A last line
            that was cut off, as a killed run leaves it, is not among them.
    """

    def __init__(self, path: Path, keep: Callable[[Iterator[str]], Iterable[str]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            rest = path.with_name(f"{path.name}.part")
            with _open(path, "r") as old, _open(rest, "w") as new:
                new.writelines(keep(line for line in old if line.endswith("\n")))
            os.replace(rest, path)
        self.file = _open(path, "a")

    def flush(self) -> None:
        """Brings all that was written to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


def _open(path: Path, mode: Literal["r", "w", "a"]) -> TextIO:
    # Names may hold any character, and lines end where they were ended.
    return open(path, mode, encoding="utf-8", errors="surrogatepass", newline="\n")
