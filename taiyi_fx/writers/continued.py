"""Text files to which a run adds lines, also after a restart."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO

from taiyi_fx.writers.protocol import Batch, RunInfo


class Continued:
    """A text file that keeps some of its old lines and gets new ones after them.

    Args:
        path: The file, or a link to it; its folder is created if missing.
        keep: Takes the old lines, with their ends, and returns those that stay. A last line that
            was cut off, as a killed run leaves it, is not among them.
    """

    def __init__(self, path: Path, keep: Callable[[Iterator[str]], Iterable[str]]) -> None:
        self._path = path.resolve()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._cut(keep)
        self.file = _open(self._path, "a")
        self._taking: tuple[Batch | None, int] = (None, 0)

    def add(self, lines: str, batch: Batch | None = None) -> None:
        """Adds lines, and passes them to the system, so that a fork of the process holds none.

        Args:
            lines: With their ends.
            batch: The batch that they are of. The one that came last may come again, as after an
                interrupt: its lines are added once.
        """
        if batch is None or self._taking[0] is not batch:
            self._taking = batch, self._size()
        else:
            self.file.flush()
            if self._size() > self._taking[1]:
                return
        self.file.write(lines)
        self.file.flush()

    def _size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def flush(self) -> None:
        """Brings all lines to the disk.

        Raises:
            OSError: The file was deleted, or cannot be written to.
        """
        if self.file.closed:  # an interrupt came right after
            return
        if not self._path.exists():
            raise FileNotFoundError(f"{str(self._path)!r} was deleted, and its content is lost")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def _cut(self, keep: Callable[[Iterator[str]], Iterable[str]]) -> None:
        rest = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}.part")
        try:
            with _open(self._path, "r") as old, _open(rest, "x") as new:
                new.writelines(keep(line for line in old if line.endswith("\n")))
            os.replace(rest, self._path)
        finally:
            rest.unlink(missing_ok=True)


class TextFile:
    """The base of the writers of text files.

    Args:
        path: The file.
        overwrite: Replace what it holds where the run starts at step 0.
    """

    takes_once = True
    _lines: Continued

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._path = Path(path)
        self._overwrite = overwrite

    def flush(self) -> None:
        """Brings the lines to the disk.

        Raises:
            OSError: The file was deleted, or cannot be written to.
        """
        self._lines.flush()

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()

    def _stays(self, step: int, run: RunInfo) -> bool:
        """True if a line of an earlier session stays: its step comes before the first of this one.

        Raises:
            FileExistsError: The run starts at step 0: another one would be lost.
        """
        if not run.start_step and not self._overwrite:
            raise FileExistsError(
                f"{str(self._path)!r} holds records already: give another path, go on with it by "
                f"start_step=, or replace it with {type(self).__name__}(path, overwrite=True)"
            )
        return step < run.start_step


def _open(path: Path, mode: Literal["r", "x", "a"]) -> TextIO:
    # Names may hold any character, and only a line feed ends a line.
    return open(path, mode, encoding="utf-8", errors="surrogatepass", newline="\n")
